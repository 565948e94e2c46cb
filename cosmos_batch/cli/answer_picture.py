"""Draw what was answered about a file: its frames with boxes, the answer, and a timeline of events."""

from dataclasses import dataclass
from pathlib import Path

from cosmos_batch.cli import progress
from cosmos_batch.cli.commands.submit import start
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.job_result import read_document, read_job_result
from cosmos_batch.cli.messages import inform
from cosmos_batch.contract.document import ReasonerDocument
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.tasks import TaskName
from cosmos_batch.viewing.marks import Marks, marks_of_answer


def draw_answer(deployment: Deployment, media: Path, document: Path, ask_more: bool) -> None:
    """Draw the answer of a saved document on its file, as a PNG beside the document, and show it if a terminal can.

    With `ask_more`, ask for times and places first, and draw these too.
    """
    # It is imported here because matplotlib takes a second to import.
    from cosmos_batch.viewing.answer_sheet import AnswerSheet, write_answer_sheet
    from cosmos_batch.viewing.terminal import show_picture

    answered = ReasonerDocument.model_validate_json(document.read_text(encoding="utf-8"))
    marks = marks_of_answer(answered.data, answered.result)
    if ask_more:
        inform("Asking what happens when, and where")
        marks += ask_for_times_and_places(deployment, answered, media)
    target = document.with_suffix(".png")
    for note in write_answer_sheet(
        AnswerSheet(media, answered.result, marks, tuple(answered.frame_times) or None), target
    ):
        inform(f"Note: {note}")
    show_picture(target)
    where = "drawn on the file" if marks else "written above the file"
    inform(f"What was answered, {where}: {target}")


@dataclass(frozen=True)
class _Question:
    """A task to ask about a file. `moment` is the time that boxes of the answer are for, in seconds."""

    task: TaskName
    prompt: str | None = None
    moment: float | None = None


def ask_for_times_and_places(deployment: Deployment, document: ReasonerDocument, media: Path) -> Marks:
    """Ask again about the file of a document: what happens when, and where the shapes are at the beginning and the end.

    A question that fails costs the picture its marks and nothing else.
    """
    assert document.input_uri is not None, "documents of this release name their file"
    questions = _questions_about(media)
    requests = [
        Request(
            pipeline=document.pipeline,
            input=document.input_uri,
            prompt=question.prompt,
            # The likeliest numbers, and no penalty on numbers that were there before.
            parameters=Parameters(task=question.task, temperature=0, presence_penalty=0),
        )
        for question in questions
    ]
    submitted = [start(deployment, request) for request in requests]
    marks = Marks()
    for question, job in zip(questions, submitted, strict=True):
        snapshot = progress.follow(deployment, job.job_id, job.at, progress.Silence())
        assert snapshot.execution is not None, "an execution that has ended exists"
        result = read_job_result(snapshot.execution, snapshot.row)
        if result.document_uri is not None:
            answered = ReasonerDocument.model_validate_json(read_document(deployment, result.document_uri))
            answer = marks_of_answer(answered.data, answered.result)
            marks += answer if question.moment is None else answer.with_boxes_at(question.moment)
    return marks


def _questions_about(media: Path) -> list[_Question]:
    from cosmos_batch.media import VideoInfo, probe

    info = probe(media)
    beginning = _Question("2d-grounding", "all shapes at the beginning", 0.0)
    if not isinstance(info, VideoInfo):
        return [beginning]
    end = _Question("2d-grounding", "all shapes at the end", info.timeline.duration)
    return [beginning, end, _Question("temporal-localization")]
