"""The failures of media: an uploaded file that cannot be used, and an engine's output that cannot be delivered."""

from collections.abc import Iterator
from contextlib import contextmanager

from cosmos_batch.contract.error import Failure

REPAIR = "Export or copy the file again, check that it plays from start to end, and upload it again."
_REMEDY = "Send the request again with another seed; if it comes again, another engine may do it."


def unusable_file(message: str, remedy: str = REPAIR) -> Failure:
    """The failure to raise for a file that cannot be used; trying it again changes nothing."""
    return Failure("InvalidInput", message, remedy)


@contextmanager
def label_failures(label: str) -> Iterator[None]:
    """Refusals with a label before their message: which of several files is meant."""
    try:
        yield
    except Failure as failure:
        error = failure.error
        raise Failure(error.code, label + error.message, error.remedy, error.retryable) from failure


def unusable_output(made: str) -> Failure:
    """The failure to raise for a result that cannot be delivered: `made` says what it is, after "The engine made"."""
    return Failure("EngineFailed", f"The engine made {made}.", _REMEDY)


@contextmanager
def as_output_failure(kind: str) -> Iterator[None]:
    """Reading a file of an engine: that it is no such `kind` of file is the engine's fault, not a person's."""
    try:
        yield
    except Failure as failure:
        if failure.error.code != "InvalidInput":
            raise
        raise unusable_output(f"a file that is no {kind}: {failure.error.message.rstrip('.')}") from failure
