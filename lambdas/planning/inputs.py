"""Read what a request names in S3: its input files, its prompt and its request file; refuse what cannot be used."""

from collections.abc import Iterator
from contextlib import contextmanager

from cosmos_batch.catalogue.formats import EXTENSIONS
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import InputFile
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.s3 import S3Location, allowed, parse_uri
from cosmos_batch.planning.input_files import (
    locate_input,
    missing_file,
    refuse_outside,
    refuse_prompt_size,
    refuse_size,
    refuse_total_size,
)
from lambdas.long_texts import prompt_location
from lambdas.s3_objects import Missing, StoredObject, Unreadable, head, read


def inspect_inputs(request: Request, more: list[str], roots: list[str]) -> list[InputFile]:
    """Return the input of a request and its further files, each fixed to one version. Raises Failure."""
    if request.input is None:
        raise Failure("InvalidInput", "input: is missing.", 'Name the file: "input": "s3://my-bucket/folder/clip.mp4".')
    first = locate_input("input", request.input, None, roots, EXTENSIONS)
    files = [inspect(first, request.input_version_id)]
    files += [inspect(locate_input("moreInputs", name, first, roots, EXTENSIONS)) for name in more]
    refuse_total_size([file.size for file in files])
    return files


def inspect(location: S3Location, version: str | None = None) -> InputFile:
    """Return a file, fixed to the requested version or to the latest one. Raises Failure."""
    latest = _head_or_refuse(location)
    file = latest if version in (None, latest.version_id) else _head_or_refuse(location, version)
    refuse_size(location.uri, file.size)
    return InputFile(
        bucket=location.bucket, key=location.key, version_id=file.version_id, etag=file.etag, size=file.size
    )


def request_file_content(location: S3Location, version: str | None, roots: list[str]) -> bytes:
    """Return the content of a `*.cosmos.json`, of a version or the latest. Raises Failure."""
    refuse_outside("requestFile", location, roots)
    return _read_or_refuse(_head_or_refuse(location, version))


def read_prompt(request: Request, job_id: str, state_bucket: str, roots: list[str]) -> str | None:
    """Return the prompt, or None if there is none or a blank one. Raises Failure.

    A prompt in a person's file is read now, so that the job asks what the file contained when the job was planned.
    """
    prompt = request.prompt
    if _is_blank(prompt) and request.prompt_uri is not None:
        prompt = _read_prompt_file(parse_uri(request.prompt_uri), prompt_location(state_bucket, job_id), roots)
    if prompt is None or _is_blank(prompt):
        return None
    refuse_prompt_size(len(prompt.encode()))
    return prompt


def _read_prompt_file(location: S3Location, own: S3Location, roots: list[str]) -> str:
    """Return the text at the job's own place in our bucket, or in a person's file. Those of other jobs are refused."""
    if location != own and not allowed(location, roots):
        raise Failure(
            "InvalidInput",
            f"promptUri: {location.uri} lies outside of the configured buckets.",
            f"Use a file below one of: {', '.join(roots)}.",
        )
    file = _head_or_refuse(location)
    refuse_prompt_size(file.size)  # before it is read
    try:
        text = _read_or_refuse(file).decode()
    except UnicodeDecodeError as error:
        raise Failure(
            "InvalidInput", f"promptUri: {location.uri} is not UTF-8 text.", "Save the prompt as UTF-8."
        ) from error
    if _is_blank(text):
        raise Failure("InvalidInput", f"promptUri: {location.uri} is empty.", "Write the prompt into it.")
    return text


def _is_blank(text: str | None) -> bool:
    return text is None or not text.strip()


def _head_or_refuse(location: S3Location, version_id: str | None = None) -> StoredObject:
    """Return the object, or one version of it. Raises Failure that tells deleted, missing and unreadable ones apart.

    Call it without a version first: a deleted object still has versions, which its owner no longer wants to be used.
    """
    name = location.uri if version_id is None else f"version {version_id} of {location.uri}"
    with _as_failure(name):
        return head(location, version_id)


def _read_or_refuse(file: StoredObject) -> bytes:
    with _as_failure(file.location.uri):
        return read(file)


@contextmanager
def _as_failure(name: str) -> Iterator[None]:
    try:
        yield
    except Missing as missing:
        if missing.deleted:
            raise Failure("InvalidInput", f"{name} was deleted.", "Restore it or upload it again.") from missing
        raise missing_file(name) from missing
    except Unreadable as unreadable:
        raise Failure(
            "InvalidInput",
            f"Cosmos Batch has no permission to read {name} ({unreadable}).",
            "Let its roles read the object: check the bucket policy, the owner and the encryption key.",
        ) from unreadable
