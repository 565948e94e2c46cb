"""How what an engine made is refused."""

from cosmos_batch.contract.error import Failure

_REMEDY = "Send the request again with another seed; if it comes again, another engine may do it."


def nonsense(made: str) -> Failure:
    """The failure to raise for a result that cannot be delivered: `made` says what it is, after "The engine made"."""
    return Failure("EngineFailed", f"The engine made {made}.", _REMEDY)
