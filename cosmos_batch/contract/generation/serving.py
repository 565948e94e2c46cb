"""Describe how a generator pipeline is deployed: `plan` refuses jobs by it, and a worker loads its engine with it."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from cosmos_batch.catalogue.generation import LossyMode, Resolution
from cosmos_batch.contract.base import Model


class ParallelPlan(Model):
    """The plan by which the GPUs of one worker share each job."""

    tp: int = Field(
        default=1, description="GPUs that share the weights: tensor parallelism, or sharding by Cosmos Framework"
    )
    cfg: int = Field(default=1, description="2 runs the prompt and the negative prompt on separate GPUs")
    ulysses: int = Field(default=1, description="GPUs that share the sequence")
    offload: bool = Field(default=False, description="Keep layers in the host's memory until they are used")

    @property
    def gpus(self) -> int:
        """Return the number of GPUs that the worker reserves: all that the plan uses."""
        return self.tp * self.cfg * self.ulysses

    def __str__(self) -> str:
        axes = [f"{axis} {degree}" for axis in ("tp", "cfg", "ulysses") if (degree := getattr(self, axis)) > 1]
        return (" x ".join(axes) or "one GPU") + (", offload" if self.offload else "")


ParallelPlans = dict[str, ParallelPlan]  # the plan of each GPU model, such as L40S


def _refuse_duplicates(modes: list[LossyMode]) -> list[LossyMode]:
    if len(set(modes)) != len(modes):
        raise ValueError("names a mode twice; name each once")
    return modes


LossyModes = Annotated[list[LossyMode], AfterValidator(_refuse_duplicates)]


def engine_label(engine: str, lossy: Sequence[str]) -> str:
    """Return an engine's name followed by its lossy modes, because they change the result."""
    return f"{engine} ({', '.join(sorted(lossy))})" if lossy else engine


class Serving(Model):
    """The settings that one generator pipeline is deployed with."""

    engine: str = Field(description="The engine's name, or package.module:Class")
    by_url: bool = Field(
        default=False, description="Whether an external server runs the model; it cannot read files of the worker"
    )
    guardrails: bool = Field(description="Whether the workers load guardrails")
    guardrails_required: bool = Field(
        default=False, description="Whether every job is checked by guardrails, whatever its request says"
    )
    max_resolution: Resolution = Field(description="The tier of the largest video")
    upsamples: bool = Field(default=False, description="Whether a model that rewrites prompts is configured")
    fixed_steps: int | None = Field(
        default=None, ge=1, description="The steps that the model is distilled to; None if it is not distilled"
    )
    lossy: LossyModes = Field(
        default_factory=list, description="Modes in which the engine is faster and changes the result"
    )
    plans: ParallelPlans = Field(description="By GPU model; all use the same number of GPUs")
