"""How what an engine made is refused."""

from collections.abc import Iterator
from contextlib import contextmanager

from cosmos_batch.contract.error import Failure

_REMEDY = "Send the request again with another seed; if it comes again, another engine may do it."


def nonsense(made: str) -> Failure:
    """The failure to raise for a result that cannot be delivered: `made` says what it is, after "The engine made"."""
    return Failure("EngineFailed", f"The engine made {made}.", _REMEDY)


@contextmanager
def made_by_engine(kind: str) -> Iterator[None]:
    """Reading a file of an engine: that it is no such `kind` of file is the engine's fault, not a person's."""
    try:
        yield
    except Failure as failure:
        if failure.error.code != "InvalidInput":
            raise
        raise nonsense(f"a file that is no {kind}: {failure.error.message.rstrip('.')}") from failure
