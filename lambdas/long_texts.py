"""The texts of a job that are too long for an execution's input or a message: they are kept in the state bucket."""

from cosmos_batch.catalogue.limits import PROMPT_INLINE_LIMIT
from cosmos_batch.contract.s3 import S3Location
from lambdas.clients import client


def keep_if_long(text: str | None, location: S3Location) -> tuple[str | None, str | None]:
    """Return the text and no URI; write a text above `PROMPT_INLINE_LIMIT` to S3 and return None and its URI."""
    if text is None or len(text.encode()) <= PROMPT_INLINE_LIMIT:
        return text, None
    client("s3").put_object(
        Bucket=location.bucket, Key=location.key, Body=text.encode(), ContentType="text/plain; charset=utf-8"
    )
    return None, location.uri


def prompt_location(state_bucket: str, job_id: str) -> S3Location:
    """Return where a request's long prompt is kept."""
    return S3Location(state_bucket, f"requests/{job_id}/prompt.txt")


def question_location(state_bucket: str, job_id: str) -> S3Location:
    """Return where a job's long question is kept.

    The question is derived from the prompt, and derived again when the job is planned again: so it must not overwrite
    the prompt.
    """
    return S3Location(state_bucket, f"requests/{job_id}/question.txt")


def words_location(state_bucket: str, job_id: str) -> S3Location:
    """Return where the caller's own long prompt is kept, for a job whose question contains more than that."""
    return S3Location(state_bucket, f"requests/{job_id}/words.txt")
