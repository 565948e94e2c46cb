"""Read the lines of a manifest: a file of this machine, an object in S3, or standard input."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, BinaryIO

from cosmos_batch.cli.errors import WrongCall, file_problem
from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.planning.runs.manifest import LINE_LIMIT

STANDARD_INPUT = "-"
_CHUNK = 1024 * 1024

Read = Callable[[int], bytes]


@contextmanager
def opened(name: str, s3: Any) -> Iterator[Read]:
    """Open `-`, an S3 URI or a file of this machine. Raises WrongCall where it cannot be read.

    Standard input can be opened again, as the others can: `run` checks it before it starts a cloud that plans it.
    """
    from botocore.exceptions import ClientError

    if name == STANDARD_INPUT:
        copy = _copied(sys.stdin.buffer)
        copy.seek(0)
        yield copy.read
    elif name.startswith("s3://"):
        bucket, key = parse_uri(name)
        try:
            body = s3.get_object(Bucket=bucket, Key=key)["Body"]
        except ClientError as error:
            raise WrongCall(f"{name} cannot be read: {error}", "Check the name and your rights.") from error
        with body:
            yield body.read
    else:
        try:
            with Path(name).expanduser().open("rb") as file:
                yield file.read
        except OSError as error:
            raise WrongCall(
                f"{name} cannot be read: {file_problem(error)}.", "Check its name and its permissions."
            ) from error


@lru_cache(maxsize=1)
def _copied(stream: BinaryIO) -> IO[bytes]:
    """Return a temporary file with all that a stream has, which can be read once alone."""
    file = tempfile.NamedTemporaryFile(prefix="cosmos-batch-")  # noqa: SIM115 - it is removed when the process ends
    shutil.copyfileobj(stream, file)
    return file


def lines_of(read: Read) -> Iterator[tuple[int, bytes]]:
    """Yield each line that is not blank, with its number from 1. Of a line past the limit, only the start is kept."""
    number, rest = 1, b""
    while chunk := read(_CHUNK):
        *complete, last = chunk.split(b"\n")
        for line in complete:
            if (rest + line).strip():
                yield number, rest + line
            number, rest = number + 1, b""
        rest = (rest + last)[: LINE_LIMIT + 1]
    if rest.strip():
        yield number, rest
