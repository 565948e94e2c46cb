"""What the generators that run as torchrun groups have in common: inputs are fitted and results written by us, and in
between one job at a time is in the group."""

import asyncio
import json
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from tokenizers import Tokenizer

from cosmos_batch.catalogue.generator_engines import GENERATOR_ABILITIES
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.guardrails import Checks
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Made, MadeFile
from cosmos_batch.engines.checkpoints import GENERATOR_PARTS, GENERATORS, refuse_distilled, refuse_incomplete
from cosmos_batch.engines.generator.captions import with_sequence_length
from cosmos_batch.engines.generator.inputs import PreparedGeneration, prepare, refuse_missing_parts
from cosmos_batch.engines.job_files import GenerationFiles, generation_files
from cosmos_batch.engines.job_threads import CancelCheck, JobCancellation
from cosmos_batch.engines.journal import TimedJournal
from cosmos_batch.engines.serving.dialect import dialect_of
from cosmos_batch.engines.serving.served_model import ServedModel
from cosmos_batch.engines.torchrun.group import GroupPlan, send_work
from cosmos_batch.planning.generation.abilities import refuse_unable_engine

LESS_MEMORY = "Choose GPUs with more memory, or ask for a lower resolution or numFrames."

Body = dict[str, Any]


class TorchrunGenerator(ABC):
    """`Engine`, `Sharing` and `Stepping`."""

    engine: ClassVar[str]
    """Its name in the contract."""

    concurrency = 2
    """One job is made; the next is prepared, or the last one written, meanwhile."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.plan = ParallelPlan()
        self._served: ServedModel[GroupPlan] | None = None
        self._cancellation = JobCancellation("generation")
        self._steps: dict[str, tuple[int, int]] = {}

    @property
    def startup_logs(self) -> list[str]:
        """What the group said while it started last."""
        return [] if self._served is None else self._served.startup_logs

    @abstractmethod
    def group_plan(self) -> GroupPlan:
        """How its group is started."""

    @abstractmethod
    def request(self, prepared: PreparedGeneration, folder: Path, check: CancelCheck) -> Body:
        """What the group is sent; files for it go into `folder`. Raises Failure."""

    @abstractmethod
    def write(self, said: Body, prepared: PreparedGeneration, folder: Path, check: CancelCheck) -> list[MadeFile]:
        """What it answered, as the files that are promised. Raises Failure (EngineFailed)."""

    def notes(self, asked: Generation) -> list[str]:  # noqa: ARG002 - for those that have some
        """What a reader must know."""
        return []

    def load(self, model_dir: Path, context: int | None = None) -> None:  # noqa: ARG002 - of the protocol
        """Start the group and wait until it has loaded the model; blocks.

        Raises Failure: ModelUnavailable where the checkpoint is broken or needs more memory than there is, EngineFailed
        where the group does not start.
        """
        refuse_incomplete(model_dir, *GENERATOR_PARTS, models=GENERATORS)
        refuse_distilled(model_dir)
        self._transformer: Body = json.loads((model_dir / "transformer" / "config.json").read_text("utf-8"))
        self._tokenizer = Tokenizer.from_file(str(model_dir / "text_tokenizer" / "tokenizer.json"))
        self._media = ThreadPoolExecutor(1, "media")
        self._turn = asyncio.Lock()
        self._served = ServedModel(self.name, self.group_plan(), dialect_of(self.engine))
        self._served.start(model_dir)

    async def run(self, job: Job, workdir: Path) -> Made:
        """Make what a job asks for, as files in `workdir`; see `generate`."""
        assert job.generation is not None, "plan decides one for every generator"
        try:
            return await self.generate(job.generation, generation_files(job, workdir), workdir, job.job_id)
        finally:
            self._steps.pop(job.job_id, None)

    def steps(self, job_id: str) -> tuple[int, int] | None:
        """How many of how many steps of a job are done."""
        return self._steps.get(job_id)

    async def generate(self, asked: Generation, files: GenerationFiles, folder: Path, name: str = "") -> Made:
        """Make what is asked for, as files in `folder`. Cancelling abandons it; the group makes it to its end.

        Raises Failure, and EngineDied where the group ended meanwhile.
        """
        served = self._served
        if served is None:
            raise Failure("Internal", "The engine was asked before it had loaded a model.", "Load a model first.")
        config = self._transformer
        refuse_missing_parts(asked, sound=bool(config.get("sound_gen")), actions=bool(config.get("action_gen")))
        on_thread = partial(asyncio.get_running_loop().run_in_executor, self._media)
        inside = folder / "group"
        journal = TimedJournal()
        with self._cancellation.scope() as check:
            with journal.timed("prepare"):
                prepared, body = await on_thread(self._prepare, asked, files, inside, check)
            async with self._turn:
                with journal.timed("generate"):
                    title = GENERATOR_ABILITIES[self.engine].title
                    total = prepared.generation.total_steps

                    def told(done: int) -> None:
                        self._steps[name] = done, total

                    said = await served.request(
                        partial(send_work, body=body, engine=title, less_memory=LESS_MEMORY, on_steps=told)
                    )
            with journal.timed("write"):
                made = await on_thread(self.write, said, prepared, folder, check)
        return Made(
            files=made,
            generation=prepared.generation,
            timings=journal.seconds,
            logs=journal.lines,
            notes=self.notes(prepared.generation),
            checks=self._checks(said.get("checks", {})),
            facts={"scheduler": "UniPC", "plan": str(self.plan)},
        )

    def close(self) -> None:
        """Stop what runs, and the group; `load` may be called again."""
        self._cancellation.cancel_all()
        if self._served is not None:
            self._served.close()
            self._served = None
            self._media.shutdown()

    def _checks(self, verdicts: dict[str, str]) -> Checks:
        """What the group's guardrails said, which are its own."""
        return Checks.model_validate({"by": self.name if verdicts else None, **verdicts})

    def _prepare(
        self, asked: Generation, files: GenerationFiles, inside: Path, check: CancelCheck
    ) -> tuple[PreparedGeneration, Body]:
        prepared = prepare(asked, files, check)
        refuse_unable_engine(self.engine, prepared.generation)  # now that size, frames and rate are known
        prepared = with_sequence_length(
            prepared, lambda text: len(self._tokenizer.encode(text, add_special_tokens=False).ids)
        )
        inside.mkdir(exist_ok=True)
        return prepared, {**self.request(prepared, inside, check), "folder": str(inside)}
