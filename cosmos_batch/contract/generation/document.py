"""The sidecar of a generation: all that is needed to make it again, and what it took."""

from pydantic import Field, JsonValue

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.catalogue import ATTRIBUTION
from cosmos_batch.contract.document import JOB_LOGS_LIMIT, MoreInput
from cosmos_batch.contract.generation.outputs import Role
from cosmos_batch.contract.generation.schema import Generation
from cosmos_batch.contract.instances import PRICES_AS_OF


class DocumentedFile(Model):
    """A file beside the document."""

    file: str = Field(description="Its name alone")
    role: Role
    size: int = Field(ge=0, description="Bytes")


class GeneratorDocument(Model):
    """Written as JSON beside what was made, under the same name."""

    model: str = Field(description="Hugging Face id, or the folder's name of a checkpoint given by path")
    model_size: str = Field(description="Such as Nano")
    revision: str = Field(description="Commit of the model")
    engine: str = Field(description="Name and version")
    pipeline: str
    job_id: str
    timestamp: str = Field(description="YYYYMMDD-HHMMSS, UTC")
    input_file: str | None = Field(description="The file's name alone; None where it started from text")
    input_version_id: str | None
    more_inputs: list[MoreInput] = Field(description="Control videos in the model's order, then actions")
    generation: Generation = Field(description="Every parameter, as it was made")
    files: list[DocumentedFile]
    notes: list[str] = Field(description="What a reader must know")
    facts: dict[str, JsonValue] = Field(description="How, as far as it is the engine's own")
    timings: dict[str, float] = Field(description="Seconds by phase")
    gpus: int | None = Field(description="Of the worker; None where it has none, or its engine plans for itself")
    gpu_seconds: float | None = Field(description="What it cost: seconds of generation, times the GPUs")
    instance_type: str | None = Field(description="EC2 type of the worker's host; None outside of EC2")
    dollars: float | None = Field(description="What these GPU-seconds cost there; idle time and start are not in it")
    prices: str = Field(default=PRICES_AS_OF, description="That `dollars` follow from")
    job_logs: str = Field(max_length=JOB_LOGS_LIMIT, description="The engine's start-up lines and this request's own")
    batch_job_id: str = Field(description="The worker's Batch job")
    attribution: str = ATTRIBUTION

    def to_json(self) -> str:
        """Indented for people."""
        return self.model_dump_json(indent=2)
