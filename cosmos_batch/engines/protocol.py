"""The interface between a worker and its engine: `Engine`, which every engine has, and what an engine may have beside.

A worker asks `isinstance(engine, CompilingEngine)` and so on before it uses one of the optional interfaces, so an
engine takes part in a feature by having its attributes and methods, and in no other way.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from cosmos_batch.catalogue.generation import LossyMode
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer, GeneratorOutput


class Engine(Protocol):
    """The methods and attributes that every engine has. One object lives in one worker and loads one model."""

    name: str
    """Name and version, such as `transformers 5.19.0`."""

    concurrency: int
    """How many jobs the worker may pass to `run` at once."""

    startup_logs: list[str]
    """Log lines of the last `load`."""

    def load(self, model_dir: Path, context: int | None = None) -> None:
        """Load a checkpoint for at most `context` tokens of prompt and answer together; blocks until it is ready.

        Raises Failure where the checkpoint cannot be loaded.
        """

    async def run(self, job: Job, workdir: Path) -> Answer | GeneratorOutput:
        """Do one job. A reasoner answers the job's `prompt`, which is never None here; a generator makes the job's
        `generation` as files in `workdir`. The input files lie at `input_paths(job, workdir)`.

        Cancelling the task abandons the job. Raises Failure: InvalidInput where the job is at fault, EngineFailed where
        the engine is; and EngineDied where the engine ended together with all jobs that it was working on.
        """

    def close(self) -> None:
        """Free the model. `load` may be called again after it."""


@runtime_checkable
class CompilingEngine(Protocol):
    """An engine that compiles code as it loads, and can start from code that another worker compiled."""

    caches: Path | None
    """Folder for compiled code, which may hold some already; set before `load`. None leaves it to the libraries."""

    startup_seconds: Mapping[str, float]
    """Seconds that each phase of the last `load` took."""

    def compiled_for(self) -> Mapping[str, str]:
        """Return the facts that compiled code depends on beside the model, by name: versions of libraries, GPU, driver.

        This may run a program of the driver.
        """


@runtime_checkable
class GuardrailEngine(Protocol):
    """An engine that can check prompts and outputs with guardrails."""

    guardrails: bool
    """Whether it loads its guardrails; set before `load`."""


@runtime_checkable
class HubGuardrailEngine(Protocol):
    """An engine whose guardrails are models on the Hugging Face Hub."""

    guardrail_models: Mapping[str, Path]
    """Local copies of these models by their names on the Hub; set before `load`. If empty, the engine's libraries
    download them."""


@runtime_checkable
class StepReportingEngine(Protocol):
    """An engine that reports how far it is with a job."""

    def steps(self, job_id: str) -> tuple[int, int] | None:
        """Return how many steps of a job are done and how many it has; None before the first step, and for a job that
        the engine is not working on."""


@runtime_checkable
class ParallelEngine(Protocol):
    """An engine that can spread one job over several GPUs."""

    plan: ParallelPlan
    """How the GPUs share a job; set before `load`."""


@runtime_checkable
class LossyEngine(Protocol):
    """An engine with modes that are faster and change the output."""

    lossy: Sequence[LossyMode]
    """The modes to use; set before `load`, which fails where one of them is impossible."""


@runtime_checkable
class RemoteEngine(Protocol):
    """An engine whose model runs on a server that no worker started, and that may be unreachable."""

    remote_model: str
    """The model's name on the server; known after `load`."""

    async def is_available(self) -> bool:
        """Return whether the server can be reached and does not say that it cannot serve now."""
