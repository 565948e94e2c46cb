"""Reading documents of all kinds: answers, generations and errors, also those of earlier and later releases.

A document may come from anywhere, so each is checked, and a file that is no document is passed over.
"""

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError
from pydantic_core import from_json

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.generation.outputs import Role
from cosmos_batch.viewing.marks import Marks, is_number, marks_of_answer

SIZE_LIMIT = 8 * 1024 * 1024  # bytes of a document
_SCORES_LIMIT = 1000  # objects of an answer that are looked at
Kind = Literal["answer", "generation", "error"]


class _Read(Model):
    """Part of a document, of which the other fields are ignored."""

    model_config = ConfigDict(extra="ignore")


class NamedInput(_Read):
    """A further file of a request."""

    input_file: str
    input_uri: str | None = None


class AnswerDocument(_Read):
    """The fields of a reasoner's document that the console shows or searches."""

    model: str
    input_file: str
    timestamp: str
    user_prompt: str
    result: str
    question: str | None = None
    reasoning: str | None = None
    notes: list[str] = Field(default_factory=list)
    frame_times: list[float] = Field(default_factory=list)
    data: Any = None
    input_uri: str | None = None
    more_inputs: list[NamedInput] = Field(default_factory=list)
    pipeline: str = ""
    timings: dict[str, float] = Field(default_factory=dict)
    job_id: str = ""


class _Input(_Read):
    uri: str


class _Generation(_Read):
    prompt: str = ""
    given_prompt: str | None = None
    mode: str = ""


class _File(_Read):
    file: str
    role: Role


class GenerationDocument(_Read):
    """The fields of a generator's document that the console shows or searches."""

    model: str
    timestamp: str
    generation: _Generation
    files: list[_File]
    input: _Input | None = None
    more_inputs: list[_Input] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    pipeline: str = ""
    timings: dict[str, float] = Field(default_factory=dict)


class FailureDocument(_Read):
    """The fields of a failed job's document that the console shows or searches."""

    error: Error
    input_file: str
    timestamp: str
    pipeline: str


@dataclass(frozen=True)
class NamedMedia:
    """A media file that a document names: what it is to the job, its name alone, and its URI if the document has it."""

    role: Role | Literal["input"]
    name: str
    uri: str | None = None


@dataclass(frozen=True)
class Document:
    """A document of any kind in one form.

    Attributes
    ----------
    name
        The name of the file that it is about, or of the first file that was made.
    answer
        What came out, in words: the answer, or the message of the error. A generation has none.
    media
        The files that it names, the one to show first at the beginning.
    content
        The whole document, parsed.
    item
        The id of its item in a run, whose `variant` tells it from others about the same file; empty outside of runs.
    task
        The preset with which its run has asked; empty outside of runs, and where there was none.
    seconds, gpu_seconds, dollars
        What its item took and cost in a run; None outside of runs.
    reused
        Whether an earlier run has answered it.
    """

    kind: Kind
    name: str
    timestamp: str
    prompt: str
    answer: str
    content: Any
    model: str = ""
    pipeline: str = ""
    error: Error | None = None
    reasoning: str | None = None
    media: tuple[NamedMedia, ...] = ()
    marks: Marks = field(default_factory=Marks)
    notes: tuple[str, ...] = ()
    frame_times: tuple[float, ...] = ()
    timings: dict[str, float] | None = None
    item: str = ""
    job_id: str = ""
    task: str = ""
    variant: str = ""
    seconds: float | None = None
    gpu_seconds: float | None = None
    dollars: float | None = None
    reused: bool = False

    @property
    def duration(self) -> float | None:
        """Return the seconds that it took: as they were measured, or the sum of its phases."""
        return self.seconds if self.seconds is not None or not self.timings else sum(self.timings.values())

    @property
    def score(self) -> float | None:
        """Return the number that the answer gives as its `score` or `confidence`; of several, the greatest."""
        return max(_scores(self.content.get("data") if isinstance(self.content, dict) else None), default=None)

    @property
    def labels(self) -> list[str]:
        """Return the labels of boxes and points, each once."""
        labels = [*(box.label for box in self.marks.boxes), *(point.label for point in self.marks.points)]
        return list(dict.fromkeys(label for label in labels if label))


def _scores(data: Any) -> list[float]:
    if isinstance(data, list):
        return [score for one in data[:_SCORES_LIMIT] for score in _scores(one)]
    values = [data.get(name) for name in ("score", "confidence")] if isinstance(data, dict) else []
    return [float(value) for value in values if is_number(value)]


def read_document(path: Path) -> Document | None:
    """Return the document in a file, or None if the file holds no document. Raises OSError where it cannot be read."""
    with path.open("rb") as file:
        text = file.read(SIZE_LIMIT + 1)
    return parse_document(text) if len(text) <= SIZE_LIMIT else None


def parse_document(text: bytes) -> Document | None:
    """Parse a JSON text, and return the document in it; None if it holds no document."""
    try:
        content = from_json(text, allow_inf_nan=False)
    except ValueError:
        return None
    if not isinstance(content, dict):
        return None
    try:
        if "result" in content:
            return _answer(content)
        if "generation" in content:
            return _generation(content)
        return _failure(content) if "error" in content else None
    except ValidationError:
        return None


def _answer(content: dict[str, Any]) -> Document:
    read = AnswerDocument.model_validate(content)
    return Document(
        "answer",
        read.input_file,
        read.timestamp,
        read.user_prompt or read.question or "",
        read.result,
        content,
        read.model,
        read.pipeline,
        reasoning=read.reasoning,
        media=(
            NamedMedia("input", read.input_file, read.input_uri),
            *(NamedMedia("input", more.input_file, more.input_uri) for more in read.more_inputs),
        ),
        marks=marks_of_answer(read.data, read.result),
        notes=tuple(read.notes),
        frame_times=tuple(read.frame_times),
        timings=read.timings,
    )


def _generation(content: dict[str, Any]) -> Document:
    read = GenerationDocument.model_validate(content)
    shown = [file for file in read.files if file.role in ("video", "image")]
    inputs = [one for one in (read.input, *read.more_inputs) if one is not None]
    return Document(
        "generation",
        shown[0].file if shown else read.files[0].file if read.files else read.generation.mode,
        read.timestamp,
        read.generation.given_prompt or read.generation.prompt,
        "",
        content,
        read.model,
        read.pipeline,
        media=(
            *(NamedMedia(file.role, file.file) for file in shown),
            *(NamedMedia("input", PurePosixPath(one.uri).name, one.uri) for one in inputs),
        ),
        notes=tuple(read.notes),
        timings=read.timings,
    )


def _failure(content: dict[str, Any]) -> Document:
    read = FailureDocument.model_validate(content)
    name = PurePosixPath(read.input_file).name
    return Document(
        "error",
        name,
        read.timestamp,
        "",
        read.error.message,
        content,
        pipeline=read.pipeline,
        error=read.error,
        media=(NamedMedia("input", name, read.input_file),),
    )
