"""The documents of attempts: each is kept before it is decided which attempt of its job has won.

A small document is a row of the state table, which costs a fraction of an S3 object (decision 076). A large one is an
object of the state bucket, where earlier releases kept all of them.
"""

import zlib
from dataclasses import dataclass
from typing import Any

from cosmos_batch.contract.generation.outputs import content_type
from cosmos_batch.state.table import Table, expires_at

# A row of up to 4 KB, with room for its keys. Its writing, and a month of it, cost less than an object.
LARGEST_ROW_BYTES = 3_900


@dataclass(frozen=True)
class StagedDocuments:
    """Keeps and reads documents. Every call blocks, and may be repeated."""

    table: Table
    s3: Any
    state_bucket: str

    def keep(self, job_id: str, attempt_id: str, document: bytes) -> None:
        """Keep the document of an attempt."""
        compressed = zlib.compress(document)
        if len(compressed) <= LARGEST_ROW_BYTES:
            values = {"document": compressed, "later": expires_at()}
            self.table.update(*_row(job_id, attempt_id), "SET #document = :document, #expiresAt = :later", values)
            return
        key = _key(job_id, attempt_id)
        self.s3.put_object(Bucket=self.state_bucket, Key=key, Body=document, ContentType=content_type(key))

    def read(self, job_id: str, attempt_id: str) -> bytes:
        """Return the document of an attempt."""
        row = self.table.get(*_row(job_id, attempt_id))
        if row is not None:
            return zlib.decompress(bytes(row["document"]))
        stored = self.s3.get_object(Bucket=self.state_bucket, Key=_key(job_id, attempt_id))
        document: bytes = stored["Body"].read()
        return document


def _row(job_id: str, attempt_id: str) -> tuple[str, str]:
    return f"job#{job_id}", f"document#{attempt_id}"


def _key(job_id: str, attempt_id: str) -> str:
    return f"jobs/{job_id}/{attempt_id}/document.json"
