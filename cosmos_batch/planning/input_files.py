"""Which files a request may name: where they lie, how they are called, how large they are."""

from cosmos_batch.catalogue.limits import INPUT_SIZE_LIMIT
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.s3 import S3Location, allowed, extension


def refuse_name(field: str, location: S3Location, roots: list[str], extensions: tuple[str, ...]) -> None:
    """Raise Failure where a file lies outside of the configured places, is a folder, or has another extension."""
    refuse_outside(field, location, roots)
    if not location.key or location.key.endswith("/"):
        raise Failure("InvalidInput", f"{field}: {location.uri} is a folder.", "Name one file; start once for each.")
    if extension(location.key) not in extensions:
        raise Failure(
            "InvalidInput",
            f"{field}: the format {extension(location.key) or '(no extension)'} of {location.uri} is not supported.",
            f"Use one of: {', '.join(extensions)}.",
        )


def refuse_outside(field: str, location: S3Location, roots: list[str]) -> None:
    """Raise Failure where a file lies outside of the places from which we read."""
    if not allowed(location, roots):
        raise Failure(
            "InvalidInput",
            f"{field}: outside of the configured buckets: {location.uri}",
            f"Use a file below one of: {', '.join(roots)}.",
        )


def refuse_size(location: S3Location, size: int) -> None:
    """Raise Failure where a file of so many bytes is empty, or does not fit on a worker's disk."""
    if size == 0:
        raise Failure("InvalidInput", f"{location.uri} is empty.", "Upload the file again.")
    if size > INPUT_SIZE_LIMIT:
        raise Failure(
            "InvalidInput",
            f"{location.uri} has {size:,} bytes, more than fit on a worker's disk.",
            f"Cut it into files of at most {INPUT_SIZE_LIMIT // 1024**3} GiB, or encode it with fewer bits a second.",
        )


def missing_file(uri: str) -> Failure:
    """Return the refusal of a file that does not exist."""
    return Failure(
        "InvalidInput",
        f"{uri} does not exist.",
        "Check the name: the key is taken as it is written, %, + and spaces included.",
    )
