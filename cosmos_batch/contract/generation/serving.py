"""How a generator is deployed: what `plan` refuses by and a worker loads its engine with."""

from pydantic import Field

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.generation.lossy import LossyModes
from cosmos_batch.contract.generation.sizes import Resolution


class ParallelPlan(Model):
    """How one worker's GPUs share a job."""

    tp: int = Field(default=1, description="GPUs that share the weights: tensor parallel, or sharded by Framework")
    cfg: int = Field(default=1, description="2: prompt and negative prompt on GPUs of their own")
    ulysses: int = Field(default=1, description="GPUs that share the sequence")
    offload: bool = Field(default=False, description="Layers wait in the host's memory")

    @property
    def gpus(self) -> int:
        """What the worker must reserve: no GPU is paid for and unused."""
        return self.tp * self.cfg * self.ulysses

    def __str__(self) -> str:
        axes = [f"{axis} {degree}" for axis in ("tp", "cfg", "ulysses") if (degree := getattr(self, axis)) > 1]
        return (" x ".join(axes) or "one GPU") + (", offload" if self.offload else "")


Plans = dict[str, ParallelPlan]  # by the GPU's kind, such as L40S


class Serving(Model):
    """Of one pipeline."""

    engine: str = Field(description="By its name, or package.module:Class")
    by_url: bool = Field(default=False, description="Whether a server has it, which sees none of our files")
    guardrails: bool = Field(description="Whether its workers have any")
    guardrails_required: bool = Field(default=False, description="Whether every job has them, whatever it asks for")
    max_resolution: Resolution = Field(description="Of the largest video")
    upsamples: bool = Field(default=False, description="Whether a model is configured that writes prompts")
    lossy: LossyModes = Field(default_factory=list, description="What its workers do to be faster and less exact")
    plans: Plans = Field(description="By the kind of GPU; all of as many GPUs")
