"""How media is refused."""

from cosmos_batch.contract.error import Failure

REPAIR = "Export or copy the file again, check that it plays from start to end, and upload it again."


def refuse(message: str, remedy: str = REPAIR) -> Failure:
    """The failure to raise for a file that cannot be used; trying it again changes nothing."""
    return Failure("InvalidInput", message, remedy)
