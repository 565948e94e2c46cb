"""The records that the page receives and sends to plan and start a run."""

from typing import Any, Literal

from pydantic import Field

from cosmos_batch.contract.base import Model


class PipelineChoice(Model):
    """A pipeline that can be asked."""

    id: str
    model: str
    surface: Literal["reasoner", "generator"]


class TaskChoice(Model):
    """A preset of a question."""

    name: str
    example: str = Field(description="A prompt of this task")
    medium: str | None = Field(description="The kind of file that it looks at; None for both")


class FormField(Model):
    """A parameter that can be set, as its JSON Schema describes it."""

    name: str
    kind: Literal["number", "integer", "integers", "text", "choice", "switch", "file", "group"]
    help: str
    choices: list[str] = Field(default_factory=list, description="Of a choice; of a group, the names of its members")
    fields: list["FormField"] = Field(default_factory=list, description="Of each member of a group")
    minimum: float | None = None
    maximum: float | None = None


class NewRunForm(Model):
    """The choices for a new run: pipelines, tasks, parameters, and places of inputs."""

    pipelines: list[PipelineChoice]
    tasks: list[TaskChoice]
    fields: dict[str, list[FormField]] = Field(description="By the surface of the pipeline")
    roots: list[str] = Field(description="S3 prefixes below which files may lie")


class Prefix(Model):
    """The prefixes and the number of files directly in a prefix of S3, by the first page of its listing."""

    uri: str
    prefixes: list[str] = Field(description="URIs, each with a slash at its end")
    files: int = Field(description="Videos and images")
    has_more: bool = Field(description="Whether there is more than the first page")


class NewRun(Model):
    """A run as it is asked for on the page."""

    sources: list[str] = Field(default_factory=list, max_length=100, description="S3 URIs of prefixes and files")
    dropped: str | None = Field(default=None, max_length=64, description="Id of a folder of files that were dropped")
    pipeline: str | None = Field(default=None, max_length=100)
    prompt: str | None = Field(default=None, max_length=65_536)
    parameters: dict[str, Any] = Field(default_factory=dict)
    parameter_files: dict[str, str] = Field(
        default_factory=dict,
        max_length=20,
        description="Ids of folders with one dropped file each, by the path of the parameter that names it, such as "
        "controls.edge.path",
    )
    seeds: str | None = Field(default=None, max_length=1000, description="Such as 1,2,10-12; each makes one more item")
    max_dollars: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    skip_invalid: bool = Field(default=False, description="Leave out what cannot be used, and go on")


class PlanShown(Model):
    """The plan of a run that was not started: its time and price, and what would stop it."""

    id: str
    lines: list[str] = Field(description="The plan, as the command line prints it")
    dollars: float
    items: int
    command: str = Field(description="The command that does the same")
    findings: list[str] = Field(description="What would stop it, and what to do")


class Dropped(Model):
    """The files of a folder that were dropped so far."""

    folder: str
    files: int
    bytes: int
    is_new: bool = Field(description="Whether the last file was kept: not if its name and content were there already")
