"""Write a call of VAMS on several files as a run, with an item for each file (decision 034)."""

from cosmos_batch.contract.runs import RunItem, RunRequest
from cosmos_batch.planning.runs.shards import item_line, shards_of
from lambdas.runs.objects import RunObjects
from lambdas.vams.requests import FileRequest, WorkflowCall


def write_run(run_id: str, call: WorkflowCall, bucket: str) -> None:
    """Write the objects of a run to the state bucket, unless an earlier call has; the list of shards comes last.

    Each item has its own prompt, parameters and place for its result. What all files of the call share is taken from
    the first one.
    """
    first = call.files[0].request
    request = RunRequest(
        id=run_id,
        pipelines=[first.pipeline],
        deadline=first.deadline,
        invalidate_model=first.invalidate_model,
        caller=first.caller,
        origin=call.manifest,
    )
    objects = RunObjects(bucket, run_id)
    shards = list(shards_of((item_line(_item_of(file)) for file in call.files), run_id, request.pipelines))
    for ref, content in shards:
        objects.write_shard(ref.shard, content)
    objects.write_request(request)
    objects.write_shards(ref for ref, _ in shards)


def _item_of(file: FileRequest) -> RunItem:
    request = file.request
    return RunItem(
        id=file.name,
        input=request.input,
        version_id=request.input_version_id,
        prompt=request.prompt,
        system_prompt=request.system_prompt,
        parameters=request.parameters,
        generation=request.generation,
        output=request.output,
    )
