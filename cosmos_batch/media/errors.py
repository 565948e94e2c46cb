"""The errors of media files: an uploaded file that cannot be used, and an engine's output that cannot be delivered."""

from collections.abc import Iterator
from contextlib import contextmanager

from cosmos_batch.contract.error import Failure

REPAIR = "Export or copy the file again, check that it plays from start to end, and upload it again."
_REMEDY = "Send the request again with another seed; if it comes again, another engine may do it."


def unusable_file(message: str, remedy: str = REPAIR) -> Failure:
    """Return the failure (InvalidInput, not retryable) of an uploaded file that cannot be used."""
    return Failure("InvalidInput", message, remedy)


@contextmanager
def label_failures(label: str) -> Iterator[None]:
    """Put `label`, which names one of several files, before the message of a failure that the block raises."""
    try:
        yield
    except Failure as failure:
        error = failure.error
        raise Failure(error.code, label + error.message, error.remedy, error.retryable) from failure


def unusable_output(description: str) -> Failure:
    """Return the failure (EngineFailed) of an output that cannot be delivered.

    The message is "The engine made {description}.".
    """
    return Failure("EngineFailed", f"The engine made {description}.", _REMEDY)


@contextmanager
def as_output_failure(kind: str) -> Iterator[None]:
    """Turn a failure InvalidInput of the block, which reads an engine's file of some `kind`, into EngineFailed.

    The same functions read uploaded files; but if an engine wrote the file, the engine is at fault and not a person.
    """
    try:
        yield
    except Failure as failure:
        if failure.error.code != "InvalidInput":
            raise
        raise unusable_output(f"a file that is no {kind}: {failure.error.message.rstrip('.')}") from failure
