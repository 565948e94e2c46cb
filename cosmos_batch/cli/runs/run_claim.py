"""Claim the name of a run before its objects are written, so that two different starts never mix their objects.

The claim is an object that S3 writes only where there is none. It holds a digest of what is asked: a start that was
interrupted finds its own claim when it is typed again, and goes on; a start that asks something else is refused.
"""

import hashlib

from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.contract.runs import RunItem, RunRequest
from cosmos_batch.planning.runs.shards import in_any_state, item_line


class StartDigest:
    """The digest of what a start asks: its items, in their order, and its request.

    The states of the items' files are left out: S3 does not know them before the files are uploaded.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, item: RunItem) -> None:
        """Add the next item."""
        self._hash.update(item_line(in_any_state(item)))

    def with_request(self, request: RunRequest, choice: str = "") -> str:
        """Return the digest of the items that were added, and of the request.

        `choice` says which items of the request's origin are asked, where they are not added one by one.
        """
        digest = self._hash.copy()
        digest.update(f"{request.model_dump_json(exclude_defaults=True)}{choice}".encode())
        return digest.hexdigest()


def claim_run(run: StoredRun, digest: str) -> None:
    """Claim the run's name for the start with this digest. Raises WrongCall where a different start has claimed it."""
    claimed_for = run.claim(digest)
    if claimed_for != digest:
        raise WrongCall(
            f"The name {run.run} was taken by a start that asks about other files, or asks something else of them.",
            "Choose another --name. If that start was interrupted, type it again as it was typed: it goes on.",
        )
