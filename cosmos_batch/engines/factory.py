"""Creating an engine from its name, or from the user's server, in a pipeline's configuration."""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cosmos_batch.catalogue.engines import AUTO, ENDPOINT_ENGINE, ENGINES
from cosmos_batch.catalogue.pipelines import Surface
from cosmos_batch.contract.endpoint import Endpoint
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
    class_path = name if row is None else row.class_path
    if class_path is None or ":" not in class_path:
        return MissingEngine(name)
    try:
        engine: Engine = _class_at(class_path)()
    except PackageNotFoundError as missing:
        return MissingEngine(name, missing.name, None if row is None else row.install_hint)
    return engine


def create_endpoint_engine(surface: Surface, endpoint: Endpoint, api_key: Callable[[], str | None]) -> Engine:
    """Create the engine that asks a user's server, by the server's interface; `api_key` returns its key, or None."""
    row = ENGINES[ENDPOINT_ENGINE[surface, endpoint.api]]
    assert row.endpoint_class_path is not None, "ENDPOINT_ENGINE has only engines that can be asked at an endpoint"
    engine: Engine = _class_at(row.endpoint_class_path)(endpoint, api_key)
    return engine


def _class_at(path: str) -> Any:
    """Return the class `package.module:Class`, and import its module."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


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
