"""What a text may hold, and what is said where it or its answer is too long for the context."""

from cosmos_batch.contract import Failure, Job


def without_markup(text: str, special: list[str]) -> str:
    """A person's text in which special tokens are words: one that reads `<|video_pad|>` is no second video."""
    for token in special:
        text = text.replace(token, token.replace("|", " | "))
    return text


def cut_note(job: Job, max_tokens: int) -> list[str]:
    """The note of an answer that may not be as long as its caller wished."""
    wished = job.parameters.max_tokens or 0
    return [f"maxTokens: {max_tokens:,} of {wished:,} fit beside prompt and media."] if wished > max_tokens else []


def too_long(message: str) -> Failure:
    """The refusal of what does not fit into the context."""
    return Failure("InvalidInput", message, "Shorten the prompt, or lower fps or maxTokens.")
