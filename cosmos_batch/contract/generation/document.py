"""The JSON document beside a generation's outputs: all that is needed to generate it again, and what it cost."""

from typing import Any

from pydantic import ConfigDict, Field, JsonValue

from cosmos_batch.catalogue.hardware import PRICES_AS_OF
from cosmos_batch.catalogue.pipelines import ATTRIBUTION
from cosmos_batch.contract.base import Model
from cosmos_batch.contract.document import JobLogs
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.guardrails import Checks
from cosmos_batch.contract.generation.origin import DocumentedInput, Origin
from cosmos_batch.contract.generation.outputs import Role
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.generation.serving import engine_label


class DocumentedFile(Model):
    """An output beside the document."""

    file: str = Field(description="The file's name without its folder")
    role: Role
    size: int = Field(ge=0, description="Bytes")


class DocumentedGuardrails(Model):
    """A document's record of guardrails: whether they were required, and their verdicts on what was delivered."""

    requested: bool = Field(description="Whether this generation was to be checked")
    required: bool = Field(description="Whether the pipeline checks every generation, whatever a request says")
    verdicts: Checks


class Recipe(Model):
    """The part of a document that generating the same again takes. Documents of other releases are read as well."""

    model_config = ConfigDict(extra="ignore")

    pipeline: str
    model: str = Field(
        description="Hugging Face id; or the folder's name of a checkpoint given by path; or, of an endpoint, the "
        "model that the server was asked for"
    )
    revision: str = Field(description="Commit of the model")
    engine: str = Field(description="Name and version")
    lossy: list[str] = Field(
        default_factory=list, description="Modes in which the engine was faster and changed the result"
    )
    input: DocumentedInput | None = Field(description="None if the generation started from text")
    more_inputs: list[DocumentedInput] = Field(description="Control videos in the model's order, then actions")
    generation: Generation = Field(description="Every parameter as it was used")

    @property
    def origin(self) -> Origin:
        """Return the model, engine and files that the result was generated with."""
        return Origin(
            model=self.model,
            revision=self.revision,
            engine=engine_label(self.engine, self.lossy),
            files=[*([] if self.input is None else [self.input]), *self.more_inputs],
            given_prompt=self.generation.given_prompt,
        )

    @property
    def parameters(self) -> GenerationParameters:
        """Return the request parameters that settle to the same generation."""
        generation = self.generation
        values: dict[str, Any] = {name: getattr(generation, name) for name in _SAME_IN_PARAMETERS}
        files = iter({"path": file.uri} for file in self.more_inputs)
        if generation.conditioning is not None:
            values["condition_frames"] = generation.conditioning.frames
            values["condition_keep"] = generation.conditioning.keep
        if (transfer := generation.transfer) is not None:
            values["control_guidance"] = transfer.control_guidance
            values["frames_per_chunk"] = transfer.frames_per_chunk
            values["controls"] = {
                hint: control.model_copy(update=next(files) if control.path else {})
                for hint, control in transfer.controls.items()
            }
        if (action := generation.action) is None:
            size = ("width", "height") if generation.size else ("resolution",)
            values |= {name: getattr(generation, name) for name in (*size, "num_frames")}
            return GenerationParameters(**values)
        values |= {
            "domain_name": action.domain_name,
            "view_point": action.view_point,
            "raw_action_dim": action.width,
            "action_chunk_size": action.chunk_size,
            "resolution": generation.resolution,
        }
        if action.path is not None:
            values["action_path"] = next(files)["path"]
        elif generation.mode == "forward_dynamics":
            values["action"] = action.actions
        return GenerationParameters(**values)


# The fields that mean the same in a generation and in a request's parameters. `max_sequence_length` is not among them,
# because another prompt may need more tokens.
_SAME_IN_PARAMETERS = (
    *("mode", "negative_prompt", "fps", "steps", "guidance_scale", "flow_shift", "seed", "sound", "guardrails"),
    *("use_resolution_template", "use_duration_template"),
    *("image_format", "preview", "contact_sheet"),
)


class GeneratorDocument(Recipe):
    """The JSON document that is written beside the outputs, under the same name."""

    model_config = ConfigDict(extra="forbid")

    model_size: str = Field(
        description="Size of the model, such as Nano; 'unknown' if neither catalogue nor name contains it"
    )
    job_id: str
    timestamp: str = Field(description="YYYYMMDD-HHMMSS, UTC")
    guardrails: DocumentedGuardrails | None = Field(default=None, description="None in documents of earlier releases")
    files: list[DocumentedFile]
    notes: list[str] = Field(description="What a reader of the result must know")
    facts: dict[str, JsonValue] = Field(description="Details that only this engine reports")
    timings: dict[str, float] = Field(description="Seconds by phase")
    gpus: int | None = Field(description="GPUs of the worker; None if it has none, or its engine assigns them itself")
    gpu_seconds: float | None = Field(description="Seconds of generation, times the GPUs")
    instance_type: str | None = Field(description="EC2 type of the worker's host; None outside of EC2")
    dollars: float | None = Field(description="Price of these GPU-seconds; idle time and start are not included")
    prices: str = Field(default=PRICES_AS_OF, description="The prices that `dollars` are computed with")
    job_logs: JobLogs
    batch_job_id: str = Field(description="The worker's Batch job")
    attribution: str = ATTRIBUTION

    def to_json(self) -> str:
        """Return the document as indented JSON."""
        return self.model_dump_json(indent=2)
