"""The base class of generator engines that run as a torchrun group: several processes, one per GPU, that share one
model.

A subclass says how its group is started, what it sends for a job, and how it reads the answer. Inputs are prepared and
outputs written in the worker's process, so that the group, which takes one job at a time, only generates.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ClassVar

from tokenizers import Tokenizer

from cosmos_batch.catalogue.engines import ENGINES
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.guardrails import Checks
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import GeneratedFile, GeneratorOutput
from cosmos_batch.engines.checkpoints import GENERATOR_PARTS, GENERATORS, refuse_distilled, refuse_incomplete
from cosmos_batch.engines.generator.captions import with_sequence_length
from cosmos_batch.engines.generator.inputs import PreparedGeneration, prepare, refuse_missing_parts
from cosmos_batch.engines.job_files import GenerationFiles, generation_files
from cosmos_batch.engines.job_threads import CancelCheck, JobCancellation
from cosmos_batch.engines.journal import TimedJournal
from cosmos_batch.engines.serving.dialect import dialect_of
from cosmos_batch.engines.serving.served_model import ServedModel
from cosmos_batch.engines.torchrun.driver import Body
from cosmos_batch.engines.torchrun.group import GroupPlan, send_work
from cosmos_batch.planning.generation.abilities import refuse_unable_engine

LESS_MEMORY_REMEDY = "Choose GPUs with more memory, or ask for a lower resolution or numFrames."


class TorchrunGenerator(ABC):
    """An `Engine`, `ParallelEngine` and `StepReportingEngine` on a torchrun group."""

    engine: ClassVar[str]
    """Name of the engine in a pipeline's configuration."""

    concurrency = 2
    """One job is in the group; another is prepared, or written, at the same time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.plan = ParallelPlan()
        self._served: ServedModel[GroupPlan] | None = None
        self._cancellation = JobCancellation("generation")
        self._steps: dict[str, tuple[int, int]] = {}

    @property
    def startup_logs(self) -> list[str]:
        """Return the log lines of the group's last start."""
        return [] if self._served is None else self._served.startup_logs

    @abstractmethod
    def group_plan(self) -> GroupPlan:
        """Return how the group is started: driver module, number of processes, options."""

    @abstractmethod
    def request(self, prepared: PreparedGeneration, folder: Path, check: CancelCheck) -> Body:
        """Return the request to the group. Files that it refers to are written into `folder`. `check` is called between
        frames. Raises Failure."""

    @abstractmethod
    def write(
        self, response: Body, prepared: PreparedGeneration, folder: Path, check: CancelCheck
    ) -> list[GeneratedFile]:
        """Write the group's response as the job's files. Raises Failure (EngineFailed) if it holds no usable output."""

    def notes(self, generation: Generation) -> list[str]:  # noqa: ARG002 - some subclasses have notes
        """Return notes on the output for the job's document."""
        return []

    def load(self, model_dir: Path, context: int | None = None) -> None:  # noqa: ARG002 - of the protocol
        """Start the group and wait until it has loaded the model; blocks.

        Raises Failure: ModelUnavailable if the checkpoint is broken or does not fit into the GPUs' memory, EngineFailed
        if the group does not start.
        """
        refuse_incomplete(model_dir, *GENERATOR_PARTS, models=GENERATORS)
        refuse_distilled(model_dir, ENGINES[self.engine].title)
        self._transformer: Body = json.loads((model_dir / "transformer" / "config.json").read_text("utf-8"))
        self._tokenizer = Tokenizer.from_file(str(model_dir / "text_tokenizer" / "tokenizer.json"))
        self._media = ThreadPoolExecutor(1, "media")
        self._turn = asyncio.Lock()
        self._served = ServedModel(self.name, self.group_plan(), dialect_of(self.engine))
        self._served.start(model_dir)

    async def run(self, job: Job, workdir: Path) -> GeneratorOutput:
        """Do one job; see `generate`."""
        assert job.generation is not None, "the plan function settles one for every generator job"
        try:
            return await self.generate(job.generation, generation_files(job, workdir), workdir, job.job_id)
        finally:
            self._steps.pop(job.job_id, None)

    def steps(self, job_id: str) -> tuple[int, int] | None:
        """Return how many denoising steps of a job are done and how many it has."""
        return self._steps.get(job_id)

    async def generate(
        self, generation: Generation, files: GenerationFiles, folder: Path, name: str = ""
    ) -> GeneratorOutput:
        """Generate, and write the files into `folder`. `name` is the job's id, for `steps`.

        Cancelling abandons the job; the group still generates it to its end. Raises Failure, and EngineDied if the
        group ends meanwhile.
        """
        served = self._served
        if served is None:
            raise Failure("Internal", "The engine has no model loaded.", "Load a model first.")
        config = self._transformer
        refuse_missing_parts(generation, sound=bool(config.get("sound_gen")), actions=bool(config.get("action_gen")))
        on_thread = partial(asyncio.get_running_loop().run_in_executor, self._media)
        group_folder = folder / "group"
        journal = TimedJournal()
        with self._cancellation.scope() as check:
            with journal.timed("prepare"):
                prepared, body = await on_thread(self._prepare, generation, files, group_folder, check)
            async with self._turn:
                with journal.timed("generate"):
                    title = ENGINES[self.engine].title
                    total = prepared.generation.total_steps

                    def count_steps(done: int) -> None:
                        self._steps[name] = done, total

                    response = await served.request(
                        partial(
                            send_work, body=body, engine=title, less_memory=LESS_MEMORY_REMEDY, on_steps=count_steps
                        )
                    )
            with journal.timed("write"):
                output_files = await on_thread(self.write, response, prepared, folder, check)
        return GeneratorOutput(
            files=output_files,
            generation=prepared.generation,
            timings=journal.seconds,
            logs=journal.lines,
            notes=self.notes(prepared.generation),
            checks=self._checks(response.get("checks", {})),
            facts={"scheduler": "UniPC", "plan": str(self.plan)},
        )

    def close(self) -> None:
        """Abandon all jobs and stop the group. `load` may be called again."""
        self._cancellation.cancel_all()
        if self._served is not None:
            self._served.close()
            self._served = None
            self._media.shutdown()

    def _checks(self, verdicts: dict[str, str]) -> Checks:
        """Return the verdicts of the guardrails, which run inside the group."""
        return Checks.model_validate({"by": self.name if verdicts else None, **verdicts})

    def _prepare(
        self, generation: Generation, files: GenerationFiles, group_folder: Path, check: CancelCheck
    ) -> tuple[PreparedGeneration, Body]:
        prepared = prepare(generation, files, check)
        refuse_unable_engine(self.engine, prepared.generation)  # after `prepare`: its size and rate are settled
        prepared = with_sequence_length(
            prepared, lambda text: len(self._tokenizer.encode(text, add_special_tokens=False).ids)
        )
        group_folder.mkdir(exist_ok=True)
        return prepared, {**self.request(prepared, group_folder, check), "folder": str(group_folder)}
