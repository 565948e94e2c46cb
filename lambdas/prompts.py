"""The question of a request: its own, one that lies in S3, or the default."""

from cosmos_batch.contract.catalogue import DEFAULT_PROMPT, PROMPT_LIMIT
from cosmos_batch.contract.environment import PlanEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.s3 import S3Location, allowed, parse_uri
from lambdas.input_file import head_or_refuse
from lambdas.intake import prompt_location, with_short_prompt


def settle_prompt(request: Request, job_id: str, environment: PlanEnvironment) -> tuple[str | None, str | None]:
    """The prompt, or where it lies if it is a long one: one of the two is None. Raises Failure."""
    if request.prompt is not None and request.prompt.strip():
        _refuse_long(len(request.prompt.encode()))
        pointed = with_short_prompt(request, job_id, environment.state_bucket)
        return (None, pointed.prompt_uri) if pointed.prompt is None else (pointed.prompt, None)
    if request.prompt_uri is not None:
        _inspect(parse_uri(request.prompt_uri), job_id, environment)
        return None, request.prompt_uri
    return DEFAULT_PROMPT, None


def _inspect(location: S3Location, job_id: str, environment: PlanEnvironment) -> None:
    """A pointer leads to this job's own prompt in our bucket, or to a person's file: never to another job's."""
    own = prompt_location(environment.state_bucket, job_id)
    if location != own and not allowed(location, environment.asset_buckets):
        raise Failure(
            "InvalidInput",
            f"promptUri: outside of the configured buckets: {location.uri}",
            f"Use a file below one of: {', '.join(environment.asset_buckets)}.",
        )
    size = head_or_refuse(location).size
    if size == 0:
        raise Failure("InvalidInput", f"promptUri: {location.uri} is empty.", "Write the prompt into it.")
    _refuse_long(size)


def _refuse_long(size: int) -> None:
    if size > PROMPT_LIMIT:
        raise Failure(
            "InvalidInput",
            f"prompt: {size:,} bytes are too many.",
            f"Shorten it to {PROMPT_LIMIT:,} bytes of UTF-8.",
        )
