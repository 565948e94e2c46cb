"""Read the inputs that an S3 Inventory lists: a `manifest.json` that names files of CSV or Parquet.

The format is that of docs.aws.amazon.com/AmazonS3/latest/userguide/storage-inventory-location.html. An inventory is
days old: an object that was changed since then fails as an item of the run.
"""

import csv
import gzip
import io
import json
import re
import tempfile
from collections.abc import Iterator
from typing import IO, Any
from urllib.parse import unquote_plus

from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.runs.inputs import InputCounts, ListedInput
from cosmos_batch.cli.runs.progress_counter import ProgressCounter
from cosmos_batch.contract.runs import RunItem
from cosmos_batch.contract.s3 import S3Location
from cosmos_batch.planning.runs.selection import OLD_VERSION, Selection

InventoryRow = dict[str, Any]
"""A row by the names of CSV's schema: Key, Size, ETag, and if they are listed IsLatest and IsDeleteMarker."""


def is_inventory(name: str) -> bool:
    """Return whether a name is that of an inventory's manifest."""
    return name.startswith("s3://") and name.endswith("/manifest.json")


def listed_by_inventory(
    s3: Any, manifest: S3Location, selection: Selection, input_counts: InputCounts, home: str
) -> Iterator[ListedInput]:
    """Yield the objects of an inventory that a run takes, with progress. Raises WrongCall where it cannot be read.

    An item's id is its key, or its URI where it lies in another bucket than `home`.
    """
    content = _manifest(s3, manifest)
    bucket = content["sourceBucket"]
    with ProgressCounter(f"objects read from {manifest.uri}") as counting:
        for row in _rows(s3, content):
            counting.add()
            uri = S3Location(bucket, row["Key"]).uri
            if str(row.get("IsDeleteMarker")).lower() == "true" or str(row.get("IsLatest")).lower() == "false":
                input_counts.leave_out(OLD_VERSION, uri)
                continue
            size = int(row["Size"] or 0)
            if (why := selection.why_not(row["Key"], size)) is not None:
                input_counts.leave_out(why, uri)
                continue
            etag = f'"{row["ETag"]}"' if row.get("ETag") else None
            item = RunItem(id=row["Key"] if bucket == home else uri, input=uri, etag=etag, size=size)
            yield ListedInput(item, uri, 0)


def _manifest(s3: Any, location: S3Location) -> dict[str, Any]:
    from botocore.exceptions import ClientError

    try:
        content = json.loads(s3.get_object(Bucket=location.bucket, Key=location.key)["Body"].read())
    except (ClientError, ValueError) as error:
        raise WrongCall(f"{location.uri} cannot be read: {error}.", "Check the name and your rights.") from error
    needed = {"sourceBucket", "fileFormat", "fileSchema", "files", "destinationBucket"}
    if not isinstance(content, dict) or needed - content.keys():
        raise WrongCall(
            f"{location.uri} is no manifest of an S3 Inventory.",
            "Name the manifest.json of one of its dates. A manifest of requests ends in .jsonl.",
        )
    if content["fileFormat"] not in ("CSV", "Parquet"):
        raise WrongCall(
            f"The inventory is written as {content['fileFormat']}, which cannot be read.",
            "Configure it to write CSV or Parquet.",
        )
    # The schema of Parquet is the same list in its own words, such as `optional int64 size`.
    if not re.search(r"\bsize\b", str(content["fileSchema"]), re.IGNORECASE):
        raise WrongCall(
            f"The inventory of {location.uri} has no sizes, without which empty files cannot be told from others.",
            "Add the optional field Size to its configuration and wait for its next date; or name the prefix itself.",
        )
    return content


def _rows(s3: Any, manifest: dict[str, Any]) -> Iterator[InventoryRow]:
    bucket = manifest["destinationBucket"].rpartition(":")[2]
    for file in manifest["files"]:
        with tempfile.TemporaryFile() as scratch:
            s3.download_fileobj(bucket, file["key"], scratch)
            scratch.seek(0)
            if manifest["fileFormat"] == "CSV":
                yield from _csv_rows(scratch, [name.strip() for name in manifest["fileSchema"].split(",")])
            else:
                yield from _parquet_rows(scratch)


def _csv_rows(file: IO[bytes], names: list[str]) -> Iterator[InventoryRow]:
    """Yield the rows of a compressed CSV file, whose keys are URL-encoded."""
    with gzip.open(file) as unzipped:
        for values in csv.reader(io.TextIOWrapper(unzipped, encoding="utf-8", newline="")):
            row = dict(zip(names, values, strict=True))
            yield {**row, "Key": unquote_plus(row["Key"])}


# The columns of Parquet, by the names of CSV's schema.
_COLUMNS = {
    "Key": "key",
    "Size": "size",
    "ETag": "e_tag",
    "IsLatest": "is_latest",
    "IsDeleteMarker": "is_delete_marker",
}


def _parquet_rows(file: IO[bytes]) -> Iterator[InventoryRow]:
    import pyarrow.parquet as parquet

    content = parquet.ParquetFile(file)
    columns = [column for column in _COLUMNS.values() if column in content.schema_arrow.names]
    for batch in content.iter_batches(columns=columns):
        for row in batch.to_pylist():
            yield {name: row.get(column) for name, column in _COLUMNS.items()}
