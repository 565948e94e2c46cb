"""How media is refused."""

from collections.abc import Iterator
from contextlib import contextmanager

from cosmos_batch.contract.error import Failure

REPAIR = "Export or copy the file again, check that it plays from start to end, and upload it again."


def refuse(message: str, remedy: str = REPAIR) -> Failure:
    """The failure to raise for a file that cannot be used; trying it again changes nothing."""
    return Failure("InvalidInput", message, remedy)


@contextmanager
def labelled(label: str) -> Iterator[None]:
    """Refusals with a label before their message: which of several files is meant."""
    try:
        yield
    except Failure as failure:
        error = failure.error
        raise Failure(error.code, label + error.message, error.remedy, error.retryable) from failure
