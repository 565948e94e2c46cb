"""Read the input of an execution, which `upload`, VAMS or a person wrote."""

from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.contract.error import Failure, explain, field_names, too_late
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.settings import QUEUE_DAYS
from cosmos_batch.planning.generation.aliases import read_generation_parameters
from cosmos_batch.planning.generation.prompts import prompt_text

EXAMPLE = '{"pipeline": "cosmos-reason2-2b", "input": "s3://my-bucket/clip.mp4", "prompt": "What happens?"}'


def read_request(value: object) -> Request:
    """Return the request. Raises Failure (InvalidInput) that names each wrong field.

    A request in whose file `upload` found faults is refused too: the rest of it is not what its author wants answered.
    """
    if not isinstance(value, dict):
        raise Failure("InvalidInput", "The input is not a JSON object.", f"Start with an input such as {EXAMPLE}")
    fields = _with_generation(value)
    metadata = fields.get("metadata")
    if isinstance(metadata, dict) and "systemPrompt" in metadata:
        others = {name: text for name, text in metadata.items() if name != "systemPrompt"}
        fields = {**fields, "metadata": others, "systemPrompt": metadata["systemPrompt"]}
    try:
        request = Request.model_validate(fields)
    except ValidationError as error:
        raise Failure("InvalidInput", explain(error, field_names(Request)), f"An input looks like {EXAMPLE}") from error
    if request.faults:
        raise Failure(
            "InvalidInput",
            " ".join(request.faults),
            "Correct the file's metadata, tags or sidecar and upload it again; docs/reasoner.md and docs/generator.md "
            "name all settings.",
        )
    return request


def _with_generation(fields: dict[str, Any]) -> dict[str, Any]:
    """Read `parameters` and a structured prompt as a generator's, if the pipeline is one. Raises Failure."""
    pipeline = pipeline_named(str(fields.get("pipeline")))
    if pipeline is None or pipeline.surface == "reasoner":
        return fields
    fields = dict(fields)
    if "parameters" in fields:
        if "generation" in fields:
            raise Failure(
                "InvalidInput",
                "The request has both `parameters` and `generation`.",
                "Give either `parameters` or `generation`.",
            )
        parameters = fields.pop("parameters")
        if not isinstance(parameters, dict):
            raise Failure(
                "InvalidInput",
                "parameters: is not a JSON object.",
                'Write an object such as {"mode": "t2v", "seed": 7}.',
            )
        generation = read_generation_parameters(parameters)
        fields["generation"] = generation.model_dump(mode="json", exclude_unset=True)
    if isinstance(fields.get("prompt"), dict):
        fields["prompt"] = prompt_text("prompt", fields["prompt"])
    return fields


def settle_deadline(request: Request, started_at: datetime, default_seconds: int) -> datetime:
    """Return the request's deadline, or the configured one.

    Raises Failure: TimedOut if it has passed, and InvalidInput if it is later than the job's message is kept.
    """
    deadline = request.deadline
    if deadline is None:
        deadline = started_at + timedelta(seconds=default_seconds)
    elif deadline > datetime.now(deadline.tzinfo) + timedelta(days=QUEUE_DAYS):
        raise Failure(
            "InvalidInput",
            f"deadline: {deadline.isoformat()} is more than {QUEUE_DAYS} days ahead, and the queue keeps a job for "
            f"{QUEUE_DAYS} days.",
            "Start again with an earlier deadline, or with none.",
        )
    refuse_passed_deadline(deadline)
    return deadline


def refuse_passed_deadline(deadline: datetime) -> None:
    """Raise Failure (TimedOut) if the deadline has passed."""
    if deadline <= datetime.now(deadline.tzinfo):
        raise Failure.of(too_late(deadline))
