"""The prompt of a request: its own, or one that lies in S3."""

from cosmos_batch.catalogue.limits import PROMPT_LIMIT
from cosmos_batch.contract.environment import PlanEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.s3 import S3Location, allowed, parse_uri
from lambdas.long_texts import prompt_location
from lambdas.planning.input_files import head_or_refuse, read_or_refuse


def read_prompt(request: Request, job_id: str, environment: PlanEnvironment) -> str | None:
    """The prompt; None where there is none, or a blank one. Raises Failure.

    What lies in a person's file is read now: the job asks what stood there when it was planned.
    """
    prompt = request.prompt
    if _blank(prompt) and request.prompt_uri is not None:
        prompt = _read(parse_uri(request.prompt_uri), job_id, environment)
    if prompt is None or _blank(prompt):
        return None
    _refuse_long(len(prompt.encode()))
    return prompt


def _read(location: S3Location, job_id: str, environment: PlanEnvironment) -> str:
    """A pointer leads to this job's own prompt in our bucket, or to a person's file: never to another job's."""
    own = prompt_location(environment.state_bucket, job_id)
    if location != own and not allowed(location, environment.asset_buckets):
        raise Failure(
            "InvalidInput",
            f"promptUri: outside of the configured buckets: {location.uri}",
            f"Use a file below one of: {', '.join(environment.asset_buckets)}.",
        )
    file = head_or_refuse(location)
    _refuse_long(file.size)  # before it is read
    try:
        text = read_or_refuse(file).decode()
    except UnicodeDecodeError as error:
        raise Failure(
            "InvalidInput", f"promptUri: {location.uri} is not UTF-8 text.", "Save the prompt as UTF-8."
        ) from error
    if _blank(text):
        raise Failure("InvalidInput", f"promptUri: {location.uri} is empty.", "Write the prompt into it.")
    return text


def _blank(text: str | None) -> bool:
    return text is None or not text.strip()


def _refuse_long(size: int) -> None:
    if size > PROMPT_LIMIT:
        raise Failure(
            "InvalidInput",
            f"prompt: {size:,} bytes are too many.",
            f"Shorten it to {PROMPT_LIMIT:,} bytes of UTF-8.",
        )
