"""How a job ended: its document and what was made, or the error."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.job_snapshot import JobExecution
from cosmos_batch.contract.error import Error, ErrorCode
from cosmos_batch.contract.generation.document import GeneratorDocument
from cosmos_batch.contract.generation.origin import DocumentedInput
from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.state import JobRow


@dataclass(frozen=True)
class JobResult:
    """Of a job that has ended: document and files are there, or an error."""

    document_uri: str | None = None
    file_uris: list[str] = field(default_factory=list)  # all that was written, the document first
    error: Error | None = None
    uploaded: dict[str, dict[str, str]] = field(default_factory=dict)  # what a document says of files of this machine


def read_job_result(execution: JobExecution, row: JobRow | None) -> JobResult:
    """Read how a job ended. What its row says counts: an execution can fail after its job has succeeded."""
    if row is not None and "SUCCEEDED" in (execution.status, row.state):
        written = [one.uri for one in row.result.outputs] if row.result is not None else []
        return JobResult(document_uri=row.document, file_uris=written or [row.document])
    if row is not None and row.result is not None and row.result.error is not None:
        return JobResult(error=row.result.error)
    return JobResult(error=_error_of(execution))


def read_document(deployment: Deployment, uri: str) -> str:
    """The document's text."""
    bucket, key = parse_uri(uri)
    body: bytes = deployment.clients("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    return body.decode()


def save_files(deployment: Deployment, ended: JobResult, folder: Path) -> list[Path]:
    """Copies of all that was written, in a folder of this machine: what was made, and then its document."""
    folder.mkdir(parents=True, exist_ok=True)
    document, *made = ended.file_uris
    paths = []
    for uri in (*made, document):
        bucket, key = parse_uri(uri)
        paths.append(folder / Path(key).name)
        deployment.clients("s3").download_file(bucket, key, str(paths[-1]))
    if ended.uploaded:
        _name_files(paths[-1], ended.uploaded)
    return paths


def _name_files(document: Path, uploaded: dict[str, dict[str, str]]) -> None:
    """In a document, the files of this machine: their copies go with the cloud, if it runs here."""
    found = GeneratorDocument.model_validate_json(document.read_text(encoding="utf-8"))

    def named(file: DocumentedInput) -> DocumentedInput:
        return file.model_copy(update=uploaded.get(file.uri, {}))

    changes = {"input": found.input and named(found.input), "more_inputs": [named(one) for one in found.more_inputs]}
    document.write_text(found.model_copy(update=changes).to_json(), encoding="utf-8")


def _error_of(execution: JobExecution) -> Error:
    """What the execution itself says: a request that was refused has no row."""
    try:
        return Error.model_validate_json(execution.cause or "")
    except ValidationError:
        return Error(
            code=_code_of(execution),
            message=(execution.cause or f"The execution ended as {execution.status}.")[:2000],
            remedy="Look at the execution in the Step Functions console.",
        )


def _code_of(execution: JobExecution) -> ErrorCode:
    known = {name: name for name in get_args(ErrorCode)} | {"ABORTED": "Cancelled", "TIMED_OUT": "TimedOut"}
    code: ErrorCode = known.get(execution.error or "") or known.get(execution.status, "Internal")
    return code
