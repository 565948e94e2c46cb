"""Read, print and save what a job that has ended left: its document and files, or its error."""

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import FAILED, CliError
from cosmos_batch.cli.job_snapshot import JobExecution
from cosmos_batch.cli.local_cloud import where_executions_are
from cosmos_batch.cli.output import OutputTarget
from cosmos_batch.contract.error import MESSAGE_LIMIT, Error, ErrorCode
from cosmos_batch.contract.generation.document import GeneratorDocument
from cosmos_batch.contract.generation.origin import DocumentedInput
from cosmos_batch.contract.s3 import UPLOAD_FOLDER, join_below, parse_uri
from cosmos_batch.state import JobRow

_UPLOADED = re.compile(rf"(?:^|/){UPLOAD_FOLDER}/(?:\d{{8}}-\d{{6}}-[0-9a-f]{{8}}|[0-9a-f]{{16}})/(.+)", re.DOTALL)


@dataclass(frozen=True)
class UploadedFile:
    """A file of this machine that was uploaded as an input of a generator.

    Attributes
    ----------
    path
        Where it lies.
    sha256
        The digest of its content.
    is_temporary
        Whether the command removes it at its end.
    """

    path: Path
    sha256: str
    is_temporary: bool


@dataclass(frozen=True)
class JobResult:
    """The end of a job: either `error` is set, or document and files are there."""

    document_uri: str | None = None
    file_uris: list[str] = field(default_factory=list)  # all that was written, the document first
    error: Error | None = None
    uploaded: dict[str, UploadedFile] = field(default_factory=dict)
    """By URI, the files of this machine that were uploaded for a generator."""
    job_id: str = ""


def read_job_result(execution: JobExecution, row: JobRow | None) -> JobResult:
    """Read how a job ended. Its row decides: an execution can fail after its job has succeeded."""
    if row is not None and "SUCCEEDED" in (execution.status, row.state):
        written = [output.uri for output in row.result.outputs] if row.result is not None else []
        return JobResult(document_uri=row.document, file_uris=written or [row.document])
    if row is not None and row.result is not None and row.result.error is not None:
        return JobResult(error=row.result.error)
    return JobResult(error=_error_of(execution))


def read_document(deployment: Deployment, uri: str) -> str:
    """Return the text of a document in S3. Raises CliError where it does not exist any more."""
    bucket, key = parse_uri(uri)
    with _existing(uri):
        body: bytes = deployment.clients("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    return body.decode()


def print_or_save(deployment: Deployment, result: JobResult, target: OutputTarget | None) -> int:
    """Print a job's document, or save it with its files and print their paths. Returns the exit status.

    A document that cannot be saved is printed, so that no answer is lost. A job's error is printed with its remedy.
    """
    if result.error is not None:
        return print_error(result.error)
    assert result.document_uri is not None, "a job without an error has a document"
    if target is None:
        print(read_document(deployment, result.document_uri))
        return 0
    try:
        for path in save_files(deployment, result, target):
            print(path)
    except CliError:
        print(read_document(deployment, result.document_uri))
        raise
    except OSError as error:
        print(read_document(deployment, result.document_uri))
        raise not_saved(result, error) from error
    return 0


def not_saved(result: JobResult, error: OSError) -> CliError:
    """Return the error of a result that cannot be written to this machine, and whose document was printed."""
    return CliError(
        f"The result cannot be saved: {error}. The document was printed instead.",
        f"The document and its files are in S3: {result.document_uri} and beside it.",
    )


def print_error(error: Error) -> int:
    """Print what went wrong and what to do about it. Returns the exit status."""
    print(f"error: {error.code}: {error.message}\n{error.remedy}", file=sys.stderr)
    return FAILED


def save_files(deployment: Deployment, result: JobResult, target: OutputTarget) -> list[Path]:
    """Save all that a job has written: its files, and then its document. Returns their paths.

    Inputs that are removed when the command ends are saved too, before the document: it is made again from them. Raises
    CliError for several files where the target is one file, and for one that does not exist any more; OSError
    where one cannot be written.
    """
    document, *files = result.file_uris
    if files and not target.is_folder:
        raise CliError(
            f"--output {target.path} names one file, and there are several to save: "
            f"{', '.join(saved_name(uri) for uri in result.file_uris)}.",
            f"Name a folder: --output {target.path.with_suffix('')}/",
        )
    paths = [target.save(saved_name(uri), partial(_download, deployment, uri)) for uri in files]
    kept = {uri: _saved_input(file, target) for uri, file in result.uploaded.items() if file.is_temporary}
    inputs = {uri: replace(file, path=kept.get(uri, file.path)) for uri, file in result.uploaded.items()}

    def write_document(path: Path) -> None:
        _download(deployment, document, path)
        if inputs:
            _name_local_files(path, inputs)

    return [*paths, *kept.values(), target.save(saved_name(document), write_document)]


def _saved_input(file: UploadedFile, target: OutputTarget) -> Path:
    """Save a temporary input beside the result, under a new name if another file has its own. Returns its path."""
    return target.save(file.path.name, partial(shutil.copyfile, file.path), renames=True)


def _download(deployment: Deployment, uri: str, path: Path) -> None:
    with _existing(uri):
        deployment.clients("s3").download_file(*parse_uri(uri), str(path))


@contextmanager
def _existing(uri: str) -> Iterator[None]:
    """Raise CliError, which names the object, where S3 answers in this block that it does not exist."""
    from botocore.exceptions import ClientError

    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("404", "NoSuchKey"):
            raise
        raise CliError(f"{uri} does not exist any more.", "Restore it, or start the request again.") from error


def saved_name(uri: str) -> str:
    """Return the path below the output folder at which an object is saved: the path of its input, as it was named.

    So files with the same name in several folders do not replace each other. `uploads/<time>-<id>/ep1/cam.json` of a
    job and `uploads/<folder>/ep1/cam.json` of a run are both saved as `ep1/cam.json`.
    """
    key = parse_uri(uri).key
    uploaded = _UPLOADED.search(key)
    return join_below("", uploaded[1] if uploaded else key)


def _name_local_files(document: Path, uploaded: dict[str, UploadedFile]) -> None:
    """Write into a generator's document where its inputs lie on this machine: a local cloud's copies go with it."""
    parsed = GeneratorDocument.model_validate_json(document.read_text(encoding="utf-8"))

    def named(file: DocumentedInput) -> DocumentedInput:
        local = uploaded.get(file.uri)
        if local is None:
            return file
        return file.model_copy(update={"path": str(local.path.resolve()), "sha256": local.sha256})

    changes = {
        "input": parsed.input and named(parsed.input),
        "more_inputs": [named(file) for file in parsed.more_inputs],
    }
    document.write_text(parsed.model_copy(update=changes).to_json(), encoding="utf-8")


def _error_of(execution: JobExecution) -> Error:
    """Return the error of an execution without a row: it was refused, or stopped before it was planned."""
    try:
        return Error.model_validate_json(execution.cause or "")
    except ValidationError:
        return Error(
            code=_code_of(execution),
            message=(execution.cause or f"The execution ended as {execution.status}.")[:MESSAGE_LIMIT],
            remedy=f"Look at the execution {where_executions_are()}.",
        )


def _code_of(execution: JobExecution) -> ErrorCode:
    known = {name: name for name in get_args(ErrorCode)} | {"ABORTED": "Cancelled", "TIMED_OUT": "TimedOut"}
    code: ErrorCode = known.get(execution.error or "") or known.get(execution.status, "Internal")
    return code
