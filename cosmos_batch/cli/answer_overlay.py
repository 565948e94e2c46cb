"""Draw what a reasoner answered on the file that it is about, for `--overlay`."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from cosmos_batch.cli.command_line import option
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import FAILED, CliError, explain
from cosmos_batch.cli.job_result import JobResult, read_document, saved_name
from cosmos_batch.cli.messages import inform, warn
from cosmos_batch.cli.output import SECTION, OutputTarget
from cosmos_batch.contract.document import ReasonerDocument
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.s3 import parse_uri

SHEET = ".sheet.png"
Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def overlay_option(function: Decorated) -> Decorated:
    """Add `--overlay` to a command."""
    text = (
        "Draw the answer's boxes, points and events on the file, and write a sheet of the frames that the model saw; "
        "beside the saved document, else in this folder."
    )
    return option("--overlay", is_flag=True, section=SECTION, help=text)(function)


def draw_overlay(
    deployment: Deployment, result: JobResult, target: OutputTarget | None, force: bool, media: str | None = None
) -> int:
    """Write the pictures of a job's answer and print where they are. Returns the exit status; an error is printed.

    A contact sheet shows the frames that the model saw, with the answer and a timeline of its events. Where the answer
    has boxes, points or events, the file is also written again with these drawn on it. The file is fetched from where
    the job's document says it lies, unless `media` names one of this machine.
    """
    if result.document_uri is None:
        return 0  # the job's error was printed
    try:
        document = _reasoner_document(read_document(deployment, result.document_uri), result.document_uri)
        folder, name = _place(target, result.document_uri, force)
        with _input_file(deployment, document, media) as file:
            paths = _draw(document, file, folder, name)
    except (CliError, Failure, OSError) as error:
        warn(f"error: The answer of {result.document_uri} cannot be drawn: {explain(error) or error}")
        return FAILED
    for path in paths:
        if target is None:
            inform(f"Drawn: {path}")
        else:
            print(path)
    return 0


def _draw(document: ReasonerDocument, media: Path, folder: OutputTarget, name: str) -> list[Path]:
    # It is imported here because matplotlib takes a second to import.
    from cosmos_batch.viewing.answer_sheet import AnswerSheet, write_answer_sheet
    from cosmos_batch.viewing.marks import marks_of_answer
    from cosmos_batch.viewing.overlay import overlay_suffix, write_overlay

    marks = marks_of_answer(document.data, document.result)
    notes: list[str] = []
    sheet = AnswerSheet(media, document.result, marks, tuple(document.frame_times) or None)
    paths = [folder.save(name + SHEET, lambda path: notes.extend(write_answer_sheet(sheet, path)))]
    if marks:
        suffix = overlay_suffix(media)
        paths.append(folder.save(name + suffix, lambda path: notes.extend(write_overlay(media, marks, path))))
    else:
        notes.append(
            "The answer has no boxes, points or events to draw. "
            "--task 2d-grounding and temporal-localization ask for some."
        )
    for note in dict.fromkeys(notes):
        inform(f"Note: {note}")
    return paths


def _reasoner_document(text: str, uri: str) -> ReasonerDocument:
    """Return a document. Raises CliError for that of a generator."""
    try:
        return ReasonerDocument.model_validate_json(text)
    except ValidationError as error:
        raise CliError(
            f"{uri} is not the document of a reasoner: there is no answer to draw.", "Leave --overlay out."
        ) from error


def _place(target: OutputTarget | None, document_uri: str, force: bool) -> tuple[OutputTarget, str]:
    """Return the folder for pictures and the beginning of their names: the saved document's, without its suffix."""
    if target is not None and not target.is_folder:
        return OutputTarget(target.path.parent, is_folder=True, force=force), target.path.stem
    folder = target or OutputTarget(Path(), is_folder=True, force=force)
    return folder, saved_name(document_uri).removesuffix(".json")


@contextmanager
def _input_file(deployment: Deployment, document: ReasonerDocument, media: str | None) -> Iterator[Path]:
    """Provide the file that a document is about, of the version that was read. Raises CliError."""
    from botocore.exceptions import ClientError

    if media is not None:
        yield Path(media).expanduser()
        return
    remedy = "Name the file on this machine: cosmos-batch result ID --overlay --media FILE"
    if document.input_uri is None:
        raise CliError(f"The document does not say where {document.input_file} lies.", remedy)
    bucket, key = parse_uri(document.input_uri)
    version = {"ExtraArgs": {"VersionId": document.input_version_id}} if document.input_version_id else {}
    with tempfile.TemporaryDirectory(prefix="cosmos-batch-") as scratch:
        path = Path(scratch) / f"input{Path(key).suffix}"
        try:
            deployment.clients("s3").download_file(bucket, key, str(path), **version)
        except (ClientError, OSError) as error:
            raise CliError(f"{document.input_uri} cannot be fetched: {error}.", remedy) from error
        yield path
