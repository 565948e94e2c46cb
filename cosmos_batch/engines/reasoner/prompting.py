"""Prepare a job's prompt, sampling parameters and answer length, the same for every reasoner engine."""

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.planning.questions import Sampling, with_sampling


def sampling_for(job: Job) -> Sampling:
    """Return a job's sampling parameters, with NVIDIA's defaults for those that it does not set.

    The `plan` Lambda sets all of them; a job of an older release may lack some.
    """
    settings = with_sampling(job.parameters).model_dump(by_alias=False, include=set(Sampling.__dataclass_fields__))
    return Sampling(**settings)


def without_markup(text: str, special_tokens: list[str]) -> str:
    """Return a person's text with special tokens broken up, so that `<|video_pad|>` in it is not read as a video."""
    for token in special_tokens:
        text = text.replace(token, token.replace("|", " | "))
    return text


def cut_note(job: Job, max_tokens: int) -> list[str]:
    """Return a note for the answer if it may not be as long as the request's `maxTokens`."""
    requested = job.parameters.max_tokens or 0
    if requested <= max_tokens:
        return []
    return [f"maxTokens: {max_tokens:,} of {requested:,} fit beside prompt and media."]


def too_long(message: str) -> Failure:
    """Return the error for a prompt that does not fit into the model's context."""
    return Failure("InvalidInput", message, "Shorten the prompt, or lower fps or maxTokens.")
