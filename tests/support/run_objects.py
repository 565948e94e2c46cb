"""The objects of a run, written by hand as the functions of a deployment write them."""

import json
from collections.abc import Sequence
from typing import Any

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import Usage
from cosmos_batch.contract.runs import ResultLine, RunRequest, RunSummary, ShardRef

PIPELINE = "cosmos-reason2-2b"
BAD = Error(code="InvalidInput", message="The video is damaged.", remedy="Upload it again.")


def answered(item: str, answer: str | None = "A car turns.", **fields: Any) -> ResultLine:
    """Return the line of an item with an answer."""
    values = {
        "input": f"s3://assets/{item}",
        "model": "nvidia/Cosmos-Reason2-2B",
        "usage": Usage(prompt_tokens=100, completion_tokens=5),
        "seconds": 2.5,
        "gpu_seconds": 0.5,
        "dollars": 0.001,
        **fields,
    }
    return ResultLine(id=item, job_id=f"item-{item}", pipeline=PIPELINE, answer=answer, **values)


def failed(item: str, error: Error = BAD) -> ResultLine:
    """Return the line of an item with an error."""
    return ResultLine(id=item, job_id=f"item-{item}", pipeline=PIPELINE, input=f"s3://assets/{item}", error=error)


def put_run(s3: Any, run: str, shards: Sequence[Sequence[ResultLine] | int], bucket: str = "state") -> None:
    """Write a run. Each shard is its lines, or the number of its items if it has not ended."""
    request = RunRequest(id=run, pipelines=[PIPELINE], prompt="What happens?")
    refs = []
    for number, shard in enumerate(shards):
        name = f"{number:05}"
        items = shard if isinstance(shard, int) else len(shard)
        refs.append(ShardRef(run=run, shard=name, pipeline=PIPELINE, items=items).model_dump(by_alias=True))
        if not isinstance(shard, int):
            _put_lines(s3, bucket, f"runs/{run}/results/{name}.jsonl", [line for line in shard if line.error is None])
            _put_lines(s3, bucket, f"runs/{run}/errors/{name}.jsonl", [line for line in shard if line.error])
    s3.put_object(Bucket=bucket, Key=f"runs/{run}/run.json", Body=request.model_dump_json())
    s3.put_object(Bucket=bucket, Key=f"runs/{run}/shards.json", Body=json.dumps(refs))


def put_summary(s3: Any, summary: RunSummary, bucket: str = "state") -> None:
    """Write the summary of a run that has ended."""
    s3.put_object(Bucket=bucket, Key=f"runs/{summary.id}/summary.json", Body=summary.model_dump_json())


def _put_lines(s3: Any, bucket: str, key: str, lines: list[ResultLine]) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body="".join(f"{line.model_dump_json()}\n" for line in lines))
