"""The sidecar of a generation: all that is needed to make it again, and what it took."""

from typing import Any

from pydantic import ConfigDict, Field, JsonValue

from cosmos_batch.catalogue.hardware import PRICES_AS_OF
from cosmos_batch.catalogue.pipelines import ATTRIBUTION
from cosmos_batch.contract.base import Model
from cosmos_batch.contract.document import JobLogs
from cosmos_batch.contract.generation.lossy import named
from cosmos_batch.contract.generation.origin import DocumentedInput, Origin
from cosmos_batch.contract.generation.outcomes import Checks
from cosmos_batch.contract.generation.outputs import Role
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.generation.schema import Generation


class DocumentedFile(Model):
    """A file beside the document."""

    file: str = Field(description="Its name alone")
    role: Role
    size: int = Field(ge=0, description="Bytes")


class DocumentedGuardrails(Model):
    """What was asked of the guardrails, and what they said of the one thing that was delivered."""

    requested: bool = Field(description="Whether this generation was to be checked")
    required: bool = Field(description="Whether the pipeline checks every generation, whatever a request says")
    verdicts: Checks


class Recipe(Model):
    """Of a document, what making the same again takes: it is read from documents of other releases too."""

    model_config = ConfigDict(extra="ignore")

    pipeline: str
    model: str = Field(
        description="Hugging Face id; or the folder's name of a checkpoint given by path; or, of an endpoint, the "
        "model that was asked of the server"
    )
    revision: str = Field(description="Commit of the model")
    engine: str = Field(description="Name and version")
    lossy: list[str] = Field(default_factory=list, description="What it did to be faster and less exact")
    input: DocumentedInput | None = Field(description="None where it started from text")
    more_inputs: list[DocumentedInput] = Field(description="Control videos in the model's order, then actions")
    generation: Generation = Field(description="Every parameter, as it was made")

    @property
    def origin(self) -> Origin:
        """By what it was made, and of which files."""
        files = [*([] if self.input is None else [self.input]), *self.more_inputs]
        engine, given = named(self.engine, self.lossy), self.generation.given_prompt
        return Origin(model=self.model, revision=self.revision, engine=engine, files=files, given_prompt=given)

    @property
    def parameters(self) -> GenerationParameters:
        """Those that settle to the same generation."""
        made = self.generation
        said: dict[str, Any] = {name: getattr(made, name) for name in _AS_THEY_ARE}
        files = iter({"path": one.uri} for one in self.more_inputs)
        if made.conditioning is not None:
            said |= {"condition_frames": made.conditioning.frames, "condition_keep": made.conditioning.keep}
        if made.transfer is not None:
            said |= {name: getattr(made.transfer, name) for name in ("control_guidance", "frames_per_chunk")}
            controls = made.transfer.controls.items()
            said["controls"] = {hint: one.model_copy(update=next(files) if one.path else {}) for hint, one in controls}
        if made.action is None:
            size = ("width", "height") if made.size else ("resolution",)
            return GenerationParameters(**said, **{name: getattr(made, name) for name in (*size, "num_frames")})
        said |= {name: getattr(made.action, name) for name in ("domain_name", "view_point")}
        said["raw_action_dim"] = made.action.width
        if made.action.path is not None:
            said["action_path"] = next(files)["path"]
        elif made.mode == "forward_dynamics":
            said["action"] = made.action.actions
        return GenerationParameters(**said, resolution=made.resolution, action_chunk_size=made.action.chunk_size)


# What means the same in a generation as where a caller says it.
_AS_THEY_ARE = (
    *("mode", "negative_prompt", "fps", "steps", "guidance_scale", "flow_shift", "seed", "sound", "guardrails"),
    *("use_resolution_template", "use_duration_template"),  # room for the prompt is made anew, for it may be another
    *("image_format", "preview", "contact_sheet"),
)


class GeneratorDocument(Recipe):
    """Written as JSON beside what was made, under the same name."""

    model_config = ConfigDict(extra="forbid")

    model_size: str = Field(
        description="Of the model, such as Nano; 'unknown' where neither catalogue nor name says it"
    )
    job_id: str
    timestamp: str = Field(description="YYYYMMDD-HHMMSS, UTC")
    guardrails: DocumentedGuardrails | None = Field(default=None, description="None in documents of earlier releases")
    files: list[DocumentedFile]
    notes: list[str] = Field(description="What a reader must know")
    facts: dict[str, JsonValue] = Field(description="How, as far as it is the engine's own")
    timings: dict[str, float] = Field(description="Seconds by phase")
    gpus: int | None = Field(description="Of the worker; None where it has none, or its engine plans for itself")
    gpu_seconds: float | None = Field(description="What it cost: seconds of generation, times the GPUs")
    instance_type: str | None = Field(description="EC2 type of the worker's host; None outside of EC2")
    dollars: float | None = Field(description="What these GPU-seconds cost there; idle time and start are not in it")
    prices: str = Field(default=PRICES_AS_OF, description="That `dollars` follow from")
    job_logs: JobLogs
    batch_job_id: str = Field(description="The worker's Batch job")
    attribution: str = ATTRIBUTION

    def to_json(self) -> str:
        """Indented for people."""
        return self.model_dump_json(indent=2)
