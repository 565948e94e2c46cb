"""The records that the page receives, as JSON from the server or as data of an export."""

from typing import Any, Literal

from pydantic import Field

from cosmos_batch.catalogue.formats import Medium
from cosmos_batch.console.documents import Kind
from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import Error

Sort = Literal["newest", "oldest", "name", "model", "slowest", "dearest", "score"]


class Row(Model):
    """One document in the grid."""

    id: int
    kind: Kind
    name: str = Field(description="The file that it is about, or the first file that was made")
    prompt: str = Field(description="Cut to what the grid shows")
    answer: str = Field(description="Cut to what the grid shows")
    timestamp: str = Field(description="YYYYMMDD-HHMMSS, UTC")
    model: str
    pipeline: str
    error_code: str | None
    labels: list[str] = Field(description="Of boxes and points in the answer")
    events: int = Field(description="The number of events in the answer")
    remedy: str | None = Field(default=None, description="What a person can do about the error")
    item: str = Field(default="", description="Id of its item in a run")
    variant: str = Field(default="", description="What tells it from other items about the same file, as JSON")
    duration: float | None = Field(default=None, description="Seconds that it took")
    dollars: float | None = Field(default=None, description="What it cost")
    score: float | None = Field(default=None, description="Number that the answer gives as its score")
    poster: str | None = Field(description="URL of a small picture of its media; None if these cannot be shown")
    media: str | None = Field(default=None, description="URL of that media file itself")


class Query(Model):
    """A query for rows: the filters that a row must pass, and the order of the rows."""

    search: str = Field(default="", max_length=200, description="Words that names, prompts or answers contain")
    status: Literal["", "succeeded", "failed"] = ""
    error_code: str = Field(default="", max_length=100)
    model: str = Field(default="", max_length=500)
    label: str = Field(default="", max_length=500)
    min_seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False, description="Of its duration")
    max_seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False, description="Of its duration")
    min_score: float | None = Field(default=None, allow_inf_nan=False)
    max_score: float | None = Field(default=None, allow_inf_nan=False)
    sort: Sort = "newest"


class ChosenDocuments(Model):
    """The documents that a person has chosen: by their numbers, or what a query finds without those left out."""

    items: list[int] | None = Field(default=None, max_length=10_000)
    query: Query | None = None
    left_out: list[int] = Field(default_factory=list, max_length=10_000, description="Of what the query finds")


class ExportRequest(Model):
    """A request to export documents."""

    selection: ChosenDocuments
    media: bool = Field(description="Whether videos and images are copied too, not only their posters")


class MediaSize(Model):
    """The number and size of the media files that an export copies."""

    files: int
    bytes: int


class ExportMade(Model):
    """An export that can be saved."""

    url: str
    documents: int
    bytes: int


class Rows(Model):
    """One page of the result of a query: the rows from an offset on."""

    total: int = Field(description="The number of rows of the whole result")
    exact: bool = Field(description="False while only the first rows are known, and `total` is a lower limit")
    version: int = Field(description="`version` of the `State` in which the query was answered")
    rows: list[Row]


class Facet(Model):
    """A value that rows can be filtered by, and the number of rows that have it."""

    value: str
    count: int


class Home(Model):
    """The facts by which the page decides what it shows first."""

    view: str = Field(description="Name of the view; empty for the list of runs")
    has_runs: bool = Field(description="Whether a deployment was opened, and not a folder")
    is_local: bool = Field(description="Whether the deployment is a local cloud; costs are then what AWS would charge")


class FailureGroup(Model):
    """The failed documents with one code, and one of them as an example."""

    code: str
    count: int
    example: str
    message: str
    remedy: str


class State(Model):
    """The state of a view: what was opened, how many of its files were read, and the values to filter by."""

    title: str
    json_files: int = Field(description="JSON files of the collection: documents, or tables of a run")
    read_files: int = Field(description="Those of them that were read")
    documents: int = Field(description="Documents that were read")
    version: int = Field(description="Grows with each change of the documents")
    done: bool
    grows: bool = Field(default=False, description="Whether documents may still come or change")
    problem: str | None = Field(default=None, description="Why not all could be read; it is tried again")
    succeeded: int
    failed: int
    error_codes: list[Facet]
    models: list[Facet]
    labels: list[Facet] = Field(description="The most frequent ones")
    failures: list[FailureGroup] = Field(default_factory=list, description="The most frequent first")
    scored: bool = Field(default=False, description="Whether an answer has a score")
    varied: bool = Field(default=False, description="Whether items differ in prompt or seed alone")
    is_local: bool = Field(description="Whether a local cloud has made them; costs are then what AWS would charge")
    exported: bool = Field(default=False, description="True in static files")


class FrameSheet(Model):
    """One picture of the frames that the model saw, row by row in cells of the same size."""

    url: str
    columns: int
    count: int = Field(description="The number of frames in the picture, which are the first ones")


class Media(Model):
    """A media file of a document."""

    role: str
    name: str
    present: bool = Field(description="Whether the file is there, and may be shown")
    medium: Medium | None = None
    width: int = Field(default=0, description="Pixels, as displayed")
    height: int = Field(default=0, description="Pixels, as displayed")
    seconds: float = Field(default=0, description="Length of a video; 0 if its header does not say it")
    codec: str = ""
    offset: float = Field(default=0, description="Seconds of a player's clock at the video's first frame")
    url: str | None = Field(default=None, description="The file, or a JPEG of an image that browsers do not show")
    preview: str | None = Field(default=None, description="URL that converts the file, if browsers do not show it")
    preview_reason: str | None = Field(default=None, description="Why it has to be converted")
    poster: str | None = None
    problem: str | None = Field(default=None, description="Why it cannot be shown")
    left_out: str | None = Field(default=None, description="Why an export has only its poster, and how to get the file")


class Span(Model):
    """A part of a video, in seconds from its first frame."""

    start: float
    end: float


class BoxMark(Model):
    """A rectangle, in shares of the upright picture."""

    left: float
    top: float
    right: float
    bottom: float
    label: str
    span: Span | None


class PointMark(Model):
    """A place, in shares of the upright picture."""

    x: float
    y: float
    label: str
    span: Span | None


class EventMark(Model):
    """Something that happens in a part of a video."""

    span: Span
    caption: str


class Detail(Model):
    """Everything that the page shows of one document."""

    row: Row
    path: str = Field(description="The document's file, below the folder that was opened")
    prompt: str
    task: str = Field(default="", description="The preset with which its run has asked")
    answer: str
    reasoning: str | None
    error: Error | None
    notes: list[str]
    media: list[Media]
    boxes: list[BoxMark]
    points: list[PointMark]
    events: list[EventMark]
    frame_times: list[float] = Field(description="Seconds of the frames that the model saw")
    frame_sheet: FrameSheet | None = Field(description="None where they are not in the folder, and in an export")
    timings: dict[str, float] = Field(description="Seconds by phase")
    gpu_seconds: float | None = Field(default=None, description="Share of a GPU's time that it took in its run")
    dollars: float | None = Field(default=None, description="Price of that time")
    reused: bool = Field(default=False, description="Whether an earlier run has answered it")
    document: Any


class Preview(Model):
    """The progress of the conversion of a video."""

    state: Literal["running", "ready", "failed"]
    share: float = Field(ge=0, le=1, description="How much of the video is converted")
    url: str | None = None
    error: str | None = None
