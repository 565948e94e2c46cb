"""The inputs of a request, as S3 has them: they exist, may be read, and can be looked at; or are refused."""

from collections.abc import Iterator
from contextlib import contextmanager

from cosmos_batch.catalogue.formats import EXTENSIONS
from cosmos_batch.catalogue.limits import INPUT_SIZE_LIMIT
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import InputFile
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.s3 import S3Location, parse_uri
from cosmos_batch.planning.input_files import missing_file, refuse_name, refuse_size
from lambdas.s3_objects import Missing, StoredObject, Unreadable, head, read


def inspect_inputs(request: Request, more: list[str], roots: list[str]) -> list[InputFile]:
    """One exact state of the input, and of each further file: an S3 URI, or a name beside the input. Raises Failure."""
    if request.input is None:
        raise Failure("InvalidInput", "input: is missing.", 'Name the file: "input": "s3://my-bucket/folder/clip.mp4".')
    first = parse_uri(request.input)
    files = [inspect("input", first, roots, EXTENSIONS, request.input_version_id)]
    files += [inspect("moreInputs", beside("moreInputs", first, name), roots, EXTENSIONS) for name in more]
    size = sum(file.size for file in files)
    if size > INPUT_SIZE_LIMIT:
        raise Failure(
            "InvalidInput",
            f"moreInputs: the {len(files)} files have {size:,} bytes, more than fit on a worker's disk.",
            f"Name files that have at most {INPUT_SIZE_LIMIT // 1024**3} GiB together.",
        )
    return files


def beside(field: str, first: S3Location | None, name: str) -> S3Location:
    """An S3 URI, or the name of a file beside the first. Raises Failure."""
    if not name.startswith("s3://"):
        if first is None:
            raise Failure(
                "InvalidInput",
                f"{field}: {name!r} is no S3 URI, and there is no input beside which it lies.",
                "Write it as s3://bucket/key.",
            )
        folder, slash, _ = first.key.rpartition("/")
        return S3Location(first.bucket, folder + slash + name)
    try:
        return parse_uri(name)
    except ValueError as error:
        raise Failure("InvalidInput", f"{field}: {name!r}: {error}.", "Write it as S3 shows it.") from error


def inspect(
    field: str, location: S3Location, roots: list[str], extensions: tuple[str, ...], asked: str | None = None
) -> InputFile:
    """One exact state of a file that a request names: the version asked for, or the latest. Raises Failure."""
    refuse_name(field, location, roots, extensions)
    current = head_or_refuse(location)
    file = current if asked in (None, current.version_id) else head_or_refuse(location, asked)
    refuse_size(location, file.size)
    return InputFile(
        bucket=location.bucket, key=location.key, version_id=file.version_id, etag=file.etag, size=file.size
    )


def head_or_refuse(location: S3Location, version_id: str | None = None) -> StoredObject:
    """The object, or one version of it. Raises Failure, which tells deleted, missing and not readable apart.

    Ask without a version first: a deleted file still has its versions, but its owner wants it no more.
    """
    which = location.uri if version_id is None else f"version {version_id} of {location.uri}"
    with _refusing(which):
        return head(location, version_id)


def read_or_refuse(file: StoredObject) -> bytes:
    """The content of an object that HEAD has seen. Raises Failure."""
    with _refusing(file.location.uri):
        return read(file)


@contextmanager
def _refusing(which: str) -> Iterator[None]:
    try:
        yield
    except Missing as missing:
        if missing.deleted:
            raise Failure("InvalidInput", f"{which} was deleted.", "Restore it or upload it again.") from missing
        raise missing_file(which) from missing
    except Unreadable as unreadable:
        raise Failure(
            "InvalidInput",
            f"{which} may not be read ({unreadable}).",
            "Let the roles of Cosmos Batch read the object: bucket policy, owner and encryption key.",
        ) from unreadable
