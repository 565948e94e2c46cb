"""Check the files that a request names, by their names and sizes: what does not need a look at their content."""

from collections.abc import Sequence

from cosmos_batch.catalogue.formats import extension
from cosmos_batch.catalogue.limits import INPUT_SIZE_LIMIT, PROMPT_LIMIT
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.s3 import S3Location, allowed, parse_uri


def locate(field: str, name: str, first: S3Location | None) -> S3Location:
    """Return where a file lies that a field names: by an S3 URI, or by its name beside the first input.

    Raises Failure (InvalidInput) if it is neither.
    """
    if name.startswith("s3://"):
        try:
            return parse_uri(name)
        except ValueError as error:
            raise Failure("InvalidInput", f"{field}: {name!r}: {error}.", "Write it as S3 shows it.") from error
    if first is None:
        raise Failure(
            "InvalidInput",
            f"{field}: {name!r} is not an S3 URI, and there is no input beside which a file of that name could lie.",
            "Write it as s3://bucket/key.",
        )
    folder, slash, _ = first.key.rpartition("/")
    return S3Location(first.bucket, folder + slash + name)


def locate_input(
    field: str, name: str, first: S3Location | None, roots: list[str], extensions: Sequence[str]
) -> S3Location:
    """Return where an input file lies, as `locate` does.

    Raises Failure (InvalidInput) if it cannot be an input because of its bucket, folder or extension.
    """
    location = locate(field, name, first)
    refuse_name(field, location, roots, extensions)
    return location


def refuse_name(field: str, location: S3Location, roots: list[str], extensions: Sequence[str]) -> None:
    """Raise Failure (InvalidInput) if a file cannot be an input because of its bucket, folder or extension."""
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
    """Raise Failure (InvalidInput) if a file does not lie in one of the configured buckets."""
    if not allowed(location, roots):
        raise Failure(
            "InvalidInput",
            f"{field}: {location.uri} lies outside of the configured buckets.",
            f"Use a file below one of: {', '.join(roots)}.",
        )


def refuse_size(name: str, size: int) -> None:
    """Raise Failure (InvalidInput) if a file that messages call `name` is empty or too large. `size` is in bytes."""
    if size == 0:
        raise Failure("InvalidInput", f"{name} is empty.", "Copy or upload the file again.")
    if size > INPUT_SIZE_LIMIT:
        raise Failure(
            "InvalidInput",
            f"{name} has {size:,} bytes, more than fit on a worker's disk.",
            f"Cut it into files of at most {INPUT_SIZE_LIMIT // 1024**3} GiB, or encode it with fewer bits a second.",
        )


def refuse_total_size(sizes: Sequence[int]) -> None:
    """Raise Failure (InvalidInput) if all files of a request together are too large. Sizes are in bytes."""
    if sum(sizes) > INPUT_SIZE_LIMIT:
        raise Failure(
            "InvalidInput",
            f"moreInputs: the {len(sizes)} files have {sum(sizes):,} bytes, more than fit on a worker's disk.",
            f"Name files that have at most {INPUT_SIZE_LIMIT // 1024**3} GiB together.",
        )


def refuse_prompt_size(size: int) -> None:
    """Raise Failure (InvalidInput) if a prompt is too long. `size` is in bytes of UTF-8."""
    if size > PROMPT_LIMIT:
        raise Failure(
            "InvalidInput",
            f"prompt: {size:,} bytes are too many.",
            f"Shorten it to {PROMPT_LIMIT:,} bytes of UTF-8.",
        )


def missing_file(name: str) -> Failure:
    """Return the refusal of a file that does not exist, to be raised."""
    return Failure(
        "InvalidInput",
        f"{name} does not exist.",
        "Check the name: the key is taken as it is written, %, + and spaces included.",
    )
