"""A generation that a server computes: its inputs are prepared here, and its output is written as the job's files."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.guardrails import Checks
from cosmos_batch.contract.result import GeneratorOutput
from cosmos_batch.engines.generator.inputs import PreparedGeneration, prepare
from cosmos_batch.engines.generator.outputs import rewrite_files
from cosmos_batch.engines.job_files import GenerationFiles
from cosmos_batch.engines.journal import TimedJournal
from cosmos_batch.planning.generation.abilities import refuse_unable_engine


@dataclass(frozen=True)
class ServerOutput:
    """The output of a server for one request.

    Attributes
    ----------
    content
        A file with an image or a video.
    actions
        One row for each action, in modes that predict actions.
    facts
        Timings and peak memory, as far as the server reports them.
    """

    content: bytes
    actions: np.ndarray | None = None
    facts: dict[str, Any] = field(default_factory=dict)


class ServedJob:
    """Base class of the generations of one server program, which adds how its requests are built and sent.

    Parameters
    ----------
    engine
        The program's name in the registry of engines.
    folder
        The job's working folder, into which the output files are written.
    check
        Called between frames. An exception that it raises ends the work.
    """

    def __init__(self, engine: str, folder: Path, check: Callable[[], None]) -> None:
        self._engine, self._folder, self._check = engine, folder, check
        self._journal = TimedJournal()
        self._notes: list[str] = []

    @property
    def journal(self) -> TimedJournal:
        """Return the log lines and timings of this job."""
        return self._journal

    def write(self, output: ServerOutput, generation: Generation, checks: Checks) -> GeneratorOutput:
        """Write the server's output as the job's files; blocks. Raises Failure (EngineFailed) if it is no image or
        video."""
        with self._journal.timed("write"):
            source = self._folder / ("server.mp4" if generation.is_video else "server.png")
            source.write_bytes(output.content)
            files = rewrite_files(source, output.actions, generation, self._folder, self._check)
        return GeneratorOutput(
            files=files,
            generation=generation,
            timings=self._journal.seconds,
            logs=self._journal.lines,
            notes=self._notes,
            checks=checks,
            facts={"scheduler": generation.scheduler, **output.facts},
        )

    def _prepared(self, generation: Generation, files: GenerationFiles) -> PreparedGeneration:
        """Decode and fit the inputs; blocks. Raises Failure, also if the program cannot do what they are fitted to."""
        prepared = prepare(generation, files, self._check)
        refuse_unable_engine(self._engine, prepared.generation)  # after `prepare`: its size and rate are settled
        return prepared
