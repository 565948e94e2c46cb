"""A picture of what was answered about a file: its frames with boxes, the answer, and a timeline of events."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from cosmos_batch.catalogue.formats import VIDEO_EXTENSIONS
from cosmos_batch.cli import progress
from cosmos_batch.cli.commands.submit import start
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.job_result import read_document, read_job_result
from cosmos_batch.cli.messages import inform
from cosmos_batch.contract.document import ReasonerDocument
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.tasks import TaskName

_BEGINNING, _END = "all shapes at the beginning", "all shapes at the end"


def draw_answer(deployment: Deployment, media: Path, document: Path, ask_more: bool) -> None:
    """Draw the answer of a saved document beside it, as a PNG. With `ask_more`, ask for times and places first."""
    answered = ReasonerDocument.model_validate_json(document.read_text(encoding="utf-8"))
    more = ask_for_times_and_places(deployment, answered, media) if ask_more else []
    write_answer_picture(media, [answered, *more], document.with_suffix(".png"))


def write_answer_picture(media: Path, documents: list[ReasonerDocument], target: Path) -> None:
    """Write a contact sheet of a file with the answers of several documents about it, and show it where a terminal can.

    The text above the frames is the first document's answer; boxes, points and events are those of all of them.
    """
    # Here, for matplotlib takes a second to import.
    from cosmos_batch.viewing.contact_sheet import Sheet, write_contact_sheet
    from cosmos_batch.viewing.marks import Marks, Span, marks_of_answer
    from cosmos_batch.viewing.terminal import show_picture

    duration = _duration(media)
    moments = {_BEGINNING: Span(0.0, 0.0), _END: Span(duration, duration)}
    marks = Marks()
    for document in documents:
        answer_marks = marks_of_answer(document.data, document.result)
        if document.user_prompt in moments:
            span = moments[document.user_prompt]
            answer_marks = replace(answer_marks, boxes=tuple(replace(box, span=span) for box in answer_marks.boxes))
        marks += answer_marks
    target.parent.mkdir(parents=True, exist_ok=True)
    answered = documents[0]
    sheet = Sheet(media, answered.result, marks, tuple(answered.frame_times) or None)
    for note in write_contact_sheet(sheet, target):
        inform(f"Note: {note}")
    show_picture(target)
    inform(f"What was answered, drawn on the file: {target}")


def ask_for_times_and_places(deployment: Deployment, document: ReasonerDocument, media: Path) -> list[ReasonerDocument]:
    """Ask again about the file of a document: what happens when, and where the shapes are at the beginning and the end.

    Only what was answered comes back: a question that failed costs the picture its marks and nothing else.
    """
    assert document.input_uri is not None, "documents of this release name their file"
    inform("Asking what happens when, and where")
    questions: list[tuple[str | None, TaskName]] = [(_BEGINNING, "2d-grounding")]
    if media.suffix.lower() in VIDEO_EXTENSIONS:
        questions += [(_END, "2d-grounding"), (None, "temporal-localization")]
    requests = [
        Request(
            pipeline=document.pipeline,
            input=document.input_uri,
            prompt=prompt,
            # The likeliest numbers, and no penalty on numbers that were there before.
            parameters=Parameters(task=task, temperature=0, presence_penalty=0),
        )
        for prompt, task in questions
    ]
    submitted = [start(deployment, request) for request in requests]
    documents = []
    for job in submitted:
        snapshot = progress.follow(deployment, job.job_id, datetime.now(UTC), progress.Silence())
        assert snapshot.execution is not None, "an execution that has ended exists"
        result = read_job_result(snapshot.execution, snapshot.row)
        if result.document_uri is not None:
            documents.append(ReasonerDocument.model_validate_json(read_document(deployment, result.document_uri)))
    return documents


def _duration(media: Path) -> float:
    """Return the seconds of a clip; 0 for an image."""
    from cosmos_batch.media import VideoInfo, probe

    info = probe(media)
    return info.timeline.duration if isinstance(info, VideoInfo) else 0.0
