"""Engines: load a model, do a job with local files in and an answer or files out. They know nothing of AWS."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.generation.controls import Hint
from cosmos_batch.contract.generation.lossy import LossyMode
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer, Made
from cosmos_batch.contract.s3 import extension
from cosmos_batch.engines.gpus import gpus_here
from cosmos_batch.engines.missing import MissingEngine

BREAKS_ENGINE = (
    "The file or the prompt may break the engine: try another encoding of the file, a shorter clip or a simpler prompt."
)
"""The remedy where an engine died and did not say of what."""


class Engine(Protocol):
    """What a worker needs of an engine. One object lives in one worker and loads one model."""

    name: str
    """Name and version, such as `transformers 5.19.0`."""

    concurrency: int
    """How many jobs `run` may be given at once."""

    startup_logs: list[str]
    """What the engine said while it loaded."""

    def load(self, model_dir: Path, context: int | None = None) -> None:
        """Load a checkpoint, for at most `context` tokens of prompt and answer; blocks.

        Raises Failure where it cannot be loaded.
        """

    async def run(self, job: Job, workdir: Path) -> Answer | Made:
        """Do one job. Its files are `input_paths(job, workdir)`, and its `prompt` is never None here; or it has a
        `generation`, whose files are made in `workdir`.

        Raises Failure where the job itself is at fault (InvalidInput) or the engine is (EngineFailed), and EngineDied
        where the engine ended with all jobs that were in it.
        Cancelling the task abandons the job.
        """

    def close(self) -> None:
        """Free the model; `load` may be called again after it."""


@runtime_checkable
class Compiling(Protocol):
    """What an engine has beside that, if it compiles code as it loads, and can go on from what another compiled."""

    caches: Path | None
    """Folder for compiled code, which may hold some already; set before `load`. None leaves it to the libraries."""

    startup_seconds: Mapping[str, float]
    """How long each phase of the load took."""

    def made_for(self) -> Mapping[str, str]:
        """What compiled code depends on beside the model: libraries, GPU, driver; may ask the driver."""


@runtime_checkable
class Guarding(Protocol):
    """What an engine has beside that, if it can check prompts and what was made of them."""

    guardrails: bool
    """Whether it does so; set before `load`."""


@runtime_checkable
class LoadingGuardrails(Protocol):
    """What an engine has beside that, if it loads guardrails whose models are on the Hub."""

    guardrail_models: Mapping[str, Path]
    """Copies of them, by their names there; set before `load`. Where there are none, its libraries ask the Hub."""


@runtime_checkable
class Stepping(Protocol):
    """What an engine has beside that, if it knows how far it is with a job."""

    def steps(self, job_id: str) -> tuple[int, int] | None:
        """How many of how many steps are done; None before the first, and of a job that is not in it."""


@runtime_checkable
class Sharing(Protocol):
    """What an engine has beside that, if several GPUs can share one job."""

    plan: ParallelPlan
    """How they do; set before `load`."""


@runtime_checkable
class Lossy(Protocol):
    """What an engine has beside that, if it can be faster by making something else."""

    lossy: Sequence[LossyMode]
    """How it is; set before `load`, which fails where that cannot be had."""


@runtime_checkable
class Elsewhere(Protocol):
    """What an engine has beside that, if its model is on somebody else's server, which may be away."""

    async def is_there(self) -> bool:
        """Ask the server for its models; whatever it answers, it is there, unless it says that it cannot serve."""


OutageKind = Literal["busy", "away", "hung", "interrupted"]
"""How a server is unavailable.

`busy`: it would not begin on the request. `away`: nobody listens. `hung`: it answered none of our requests for so long.
`interrupted`: it had taken the request and may have begun on it, so that the job may be what it fails of.
"""


class ServerUnavailable(Failure):
    """Somebody else's server is busy or away. The job that asked it can be asked again later, and loses no attempt.

    Attributes
    ----------
    kind
        In which way.
    retry_after
        Seconds after which the server wants to be asked again, where it says so.
    """

    def __init__(self, kind: OutageKind, message: str, remedy: str, retry_after: float | None = None) -> None:
        super().__init__("EngineFailed", message, remedy, retryable=True)
        self.kind = kind
        self.retry_after = retry_after

    def as_interrupted(self) -> "ServerUnavailable":
        """The same, of a server that had begun on the job by an earlier request."""
        return ServerUnavailable("interrupted", self.error.message, self.error.remedy, self.retry_after)


@runtime_checkable
class AskingServer(Protocol):
    """What an engine has beside that, if the model is resident on somebody else's server."""

    asked_model: str
    """As the server calls it; known after `load`."""


class EngineDied(Exception):  # noqa: N818 - it says what happened
    """The engine ended while it worked. It lives again for the next job, unless this was `for_good`."""

    def __init__(self, error: Error, for_good: bool = False) -> None:
        super().__init__(error.message)
        self.error = error
        self.for_good = for_good


AUTO = "auto"
ENGINES = {
    "transformers": "cosmos_batch.engines.reasoner.transformers.engine:TransformersEngine",
    "diffusers": "cosmos_batch.engines.generator.diffusers.engine:DiffusersEngine",
    "vllm": "cosmos_batch.engines.reasoner.vllm.engine:VllmEngine",
    "vllm-omni": "cosmos_batch.engines.generator.vllm_omni.engine:VllmOmniEngine",
    "cosmos-framework": "cosmos_batch.engines.generator.cosmos_framework.engine:FrameworkGenerator",
    "phyai": "cosmos_batch.engines.generator.phyai.engine:PhyaiEngine",
    "cosmos-framework-reasoner": "cosmos_batch.engines.reasoner.cosmos_framework:FrameworkEngine",
}


def create(name: str) -> Engine:
    """An engine by its name in `ENGINES`, or as `package.module:Class`. Its library is imported here and no earlier.

    `auto` is the one for this machine: see `best_here`.
    """
    if name == AUTO:
        name = best_here()
    module, _, attribute = ENGINES.get(name, name).partition(":")
    if not attribute:
        return MissingEngine(name)
    try:
        engine: Engine = getattr(import_module(module), attribute)()
    except PackageNotFoundError as missing:
        return MissingEngine(name, missing.name)
    return engine


def best_here() -> str:
    """vLLM where there is a GPU and vLLM is installed, Transformers elsewhere: it starts at once, and needs no GPU."""
    return "vllm" if gpus_here() and find_spec("vllm") else "transformers"


@dataclass(frozen=True)
class GenerationFiles:
    """The local files of a generation."""

    input: Path | None
    controls: dict[Hint, Path]


def generation_files(job: Job, workdir: Path) -> GenerationFiles:
    """Which of a job's files is which; a control without one is made from the input."""
    paths = input_paths(job, workdir)
    given = None if job.input is None else paths.pop(0)
    transfer = job.generation.transfer if job.generation is not None else None
    controls = transfer.controls if transfer is not None else {}
    return GenerationFiles(given, dict(zip((hint for hint in controls if controls[hint].path), paths, strict=False)))


def input_paths(job: Job, workdir: Path) -> list[Path]:
    """Where a job's files lie. A key gives nothing but its extension: names are hostile."""
    return [workdir / f"input{number}{extension(source.key)}" for number, source in enumerate(job.inputs)]
