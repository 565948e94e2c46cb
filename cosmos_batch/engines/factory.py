"""Creating an engine from its name in a pipeline's configuration."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path

from cosmos_batch.catalogue.engines import AUTO, ENGINES
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer
from cosmos_batch.engines.gpus import gpus_here
from cosmos_batch.engines.protocol import Engine


def create_engine(name: str) -> Engine:
    """Create an engine by its name in the registry, by `package.module:Class`, or by `auto`: see `default_reasoner`.

    The engine's module is imported here. Its libraries are imported when it loads a model.
    """
    if name == AUTO:
        name = default_reasoner()
    row = ENGINES.get(name)
    module, _, attribute = (name if row is None else row.class_path).partition(":")
    if not attribute:
        return MissingEngine(name)
    try:
        engine: Engine = getattr(import_module(module), attribute)()
    except PackageNotFoundError as missing:
        return MissingEngine(name, missing.name, None if row is None else row.install_hint)
    return engine


def default_reasoner() -> str:
    """Return `vllm` where there is a GPU and vLLM is installed, else `transformers`, which runs on a CPU too."""
    return "vllm" if gpus_here() and find_spec("vllm") else "transformers"


class MissingEngine:
    """An engine that is configured and not installed. It refuses to load, so that the worker fails its jobs with the
    reason and they do not wait in the queue.

    Parameters
    ----------
    name
        The configured name.
    package
        The distribution that is not installed, where this release has the engine itself.
    install_hint
        How to install it, as part of a sentence.
    """

    concurrency = 1

    def __init__(self, name: str, package: str | None = None, install_hint: str | None = None) -> None:
        self.name = name
        self.startup_logs: list[str] = []
        self._package = package
        self._install_hint = install_hint

    def load(self, model_dir: Path, context: int | None = None) -> None:  # noqa: ARG002 - of the protocol
        """Raise Failure (EngineFailed) with what to install or configure."""
        if self._package is not None:
            remedy = "Leave the pipeline's 'engine' at 'auto'"
            if self._install_hint is not None:
                remedy = f"Leave the pipeline's 'engine' at 'auto'; or install it: {self._install_hint}"
            raise Failure(
                "EngineFailed",
                f"The engine {self.name!r} cannot load {model_dir.name}: {self._package} is not installed here.",
                f"{remedy}. The project's images have their engines.",
            )
        raise Failure(
            "EngineFailed",
            f"This release has no engine {self.name!r}, so it cannot load {model_dir.name}.",
            "Set the pipeline's 'engine' to 'package.module:Class' of an engine in the image, or disable the pipeline.",
        )

    async def run(self, job: Job, workdir: Path) -> Answer:
        """Raise AssertionError: a worker runs no job on an engine that did not load."""
        raise AssertionError(f"{self.name} has no model for {job.job_id} in {workdir}")

    def close(self) -> None:
        """Do nothing: no model was loaded."""
