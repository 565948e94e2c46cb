"""S3 locations, and the keys of files that we write. A key may contain any character."""

import re
from typing import Annotated, NamedTuple

from pydantic import AfterValidator

KEY_LIMIT = 1024  # bytes of UTF-8, S3's own
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_SCHEME = "s3://"

# The name of user metadata with the id of the job that wrote an object. Uploads of such objects start no job.
UPLOAD_FOLDER = "uploads"
"""Folder of an asset bucket, below its prefix, in which commands put files of a person's machine."""

OBJECT_MARKER = "cosmos-batch-job"

REASONER_DOCUMENTS, ERROR_DOCUMENTS = "*_CosmosReason_20*-*.json", "*_CosmosError_*.json"
"""The names of `document_key` and of `error_document_key`, as wildcards of EventBridge and of IAM policies."""

# The names of all documents, and of generated files and the documents beside them (`contract.generation.outputs`).
_OWN_OUTPUT = re.compile(r"(_Cosmos(Reason|Error|3_[a-z0-9-]+)_|^cosmos3-[a-z0-9-]+-)\d{8}-\d{6}\.")


class S3Location(NamedTuple):
    """A bucket and a key (or key prefix), neither of them URL-encoded."""

    bucket: str
    key: str

    @property
    def uri(self) -> str:
        return f"{_SCHEME}{self.bucket}/{self.key}"


def parse_uri(uri: str) -> S3Location:
    """Return the location of `s3://bucket/key`. The key is not decoded: `?`, `#`, `%` and `+` stand for themselves.

    Raises
    ------
    ValueError
        If it is not an S3 URI, or its bucket's name breaks S3's rules.
    """
    bucket, _, key = uri.removeprefix(_SCHEME).partition("/")
    if not uri.startswith(_SCHEME) or not _BUCKET.fullmatch(bucket):
        raise ValueError("must be an S3 URI such as s3://my-bucket/folder/clip.mp4")
    if len(key.encode()) > KEY_LIMIT:
        raise ValueError(f"the key is longer than S3's {KEY_LIMIT} bytes")
    return S3Location(bucket, key)


def _checked(uri: str) -> str:
    parse_uri(uri)
    return uri


S3Uri = Annotated[str, AfterValidator(_checked)]


def allowed(location: S3Location, roots: list[str]) -> bool:
    """Return whether a location lies in one of the configured roots, each `bucket` or `bucket/prefix/`."""
    for root in roots:
        bucket, _, prefix = root.partition("/")
        if location.bucket == bucket and location.key.startswith(prefix):
            return True
    return False


def relative_directory(key: str, asset_id: str | None) -> str:
    """Return the directory of `key` within its asset, or "" at the asset's root or without an asset.

    VAMS keeps the files of an asset in a folder with the asset's id. `asset_id` is never guessed from the key.
    """
    directories = key.split("/")[:-1]
    if asset_id is None or asset_id not in directories:
        return ""
    return "/".join(directories[directories.index(asset_id) + 1 :])


def is_own_output(name: str) -> bool:
    """Return whether a file, without its folder, is named as jobs name what they write. Such a file is no input."""
    return _OWN_OUTPUT.search(name) is not None


def document_key(directory: str, input_name: str, timestamp: str) -> str:
    """Return `<directory>/<inputStem>_CosmosReason_<timestamp>.json`. A long stem is cut to S3's limit of 1,024 bytes.

    `directory` is a key prefix with or without its last slash; `timestamp` is `YYYYMMDD-HHMMSS`, UTC.
    """
    stem = input_name.rpartition(".")[0] or input_name
    return fitted_key(directory, stem, f"_CosmosReason_{timestamp}", ".json")


def error_document_key(file: str, timestamp: str) -> str:
    """Return `<inputStem>_CosmosError_<timestamp>.json` beside the file of a key. Raises ValueError as `fitted_key`."""
    directory, _, name = file.rpartition("/")
    return fitted_key(directory, name.rpartition(".")[0] or name, f"_CosmosError_{timestamp}", ".json")


def fitted_key(directory: str, stem: str, tail: str, ending: str, longest_ending: int = 0) -> str:
    """Return `<directory>/<stem><tail><ending>`, with the stem cut to S3's limit.

    `longest_ending` is the number of bytes of another ending that must fit too. Raises ValueError if no character of
    the stem is left.
    """
    directory = directory.rstrip("/") + "/" if directory.strip("/") else ""
    room = KEY_LIMIT - len((directory + tail).encode()) - max(len(ending), longest_ending)
    if room < (1 if stem else 0):
        raise ValueError(f"the output prefix leaves no room for a name within S3's {KEY_LIMIT} bytes")
    return directory + stem.encode()[:room].decode(errors="ignore") + tail + ending


def join_below(prefix: str, relative: str) -> str:
    """Return the key of `relative` below `prefix`. Parts `.` and `..` are written as `%2E` and `%2E%2E`.

    To S3 `..` is a name like any other, but a tool that copies the result to a disk would write outside of the prefix.
    """
    parts = [part.replace(".", "%2E") if part in (".", "..") else part for part in relative.split("/") if part]
    return "/".join([prefix.rstrip("/"), *parts]).lstrip("/") if prefix.strip("/") else "/".join(parts)
