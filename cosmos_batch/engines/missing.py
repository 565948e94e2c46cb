"""What stands in for an engine that is configured, and that is not here."""

from pathlib import Path

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer


class MissingEngine:
    """It refuses to load, so that the worker answers its queue with the reason and nobody waits.

    Parameters
    ----------
    name
        Of the engine.
    package
        The distribution that is not installed, where this release has the engine itself.
    """

    concurrency = 1

    def __init__(self, name: str, package: str | None = None) -> None:
        self.name = name
        self.startup_logs: list[str] = []
        self._package = package

    def load(self, model_dir: Path, context: int | None = None) -> None:  # noqa: ARG002 - of the protocol
        """Raises Failure."""
        if self._package is not None:
            raise Failure(
                "EngineFailed",
                f"The engine {self.name!r} cannot load {model_dir.name}: {self._package} is not installed here.",
                "Leave the pipeline's 'engine' at 'auto'; or install it: on a machine with an NVIDIA GPU, "
                "`make vllm` does. The project's images have their engines.",
            )
        raise Failure(
            "EngineFailed",
            f"This release has no engine {self.name!r}, so it cannot load {model_dir.name}.",
            "Set the pipeline's 'engine' to 'package.module:Class' of an engine in the image, or disable the pipeline.",
        )

    async def run(self, job: Job, workdir: Path) -> Answer:
        """Never called: nothing is loaded."""
        raise AssertionError(f"{self.name} was asked for {job.job_id} in {workdir} without a model")

    def close(self) -> None:
        """Nothing to free."""
