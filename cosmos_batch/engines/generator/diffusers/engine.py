"""The engine `diffusers`: generates in the worker's own process, on a GPU or a CPU.

It has two threads: one decodes inputs and writes outputs, while the other generates.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from cosmos_batch.catalogue.generation import LossyMode
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.guardrails import Checks
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import GeneratedFile, GeneratorOutput
from cosmos_batch.engines.compile_cache import cache_variables, compiled_for
from cosmos_batch.engines.generator.diffusers.acceleration import Accelerations
from cosmos_batch.engines.generator.diffusers.checkpoint import (
    LoadedCheckpoint,
    LoadedGuardrails,
    import_libraries,
    load_checkpoint,
    load_guardrails,
)
from cosmos_batch.engines.generator.diffusers.frames import FrameQueue
from cosmos_batch.engines.generator.diffusers.generation import (
    StepProgress,
    generate,
    refuse_unsupported,
    settle_prompt_length,
)
from cosmos_batch.engines.generator.inputs import PreparedGeneration, prepare
from cosmos_batch.engines.generator.outputs import GeneratedMedia, write_files
from cosmos_batch.engines.gpus import gpus_here
from cosmos_batch.engines.job_files import GenerationFiles, generation_files
from cosmos_batch.engines.job_threads import JobCancellation
from cosmos_batch.engines.journal import Journal, TimedJournal, timed
from cosmos_batch.engines.torch_errors import expandable_segments, free_memory, run_with_failures

_LESS = "resolution or numFrames"  # what a job that runs out of memory should reduce


def _ignore_progress(_done: int, _total: int) -> None:
    """Do nothing: the `StepProgress` of a caller that needs none."""


class DiffusersEngine:
    """The engine for checkpoints of `Cosmos3OmniPipeline`. It has all optional interfaces of `engines.protocol` but
    `RemoteEngine`.

    Importing this module imports neither torch nor Diffusers.
    """

    concurrency = 2
    """One job generates; another is prepared, or written, at the same time."""

    guardrails = True
    """Whether to load guardrails, if they are installed; set before `load`."""

    guardrail_models: Mapping[str, Path] = MappingProxyType({})
    """Local copies of the guardrails' models by their names on the Hub; set before `load`."""

    accelerations = Accelerations()
    """Which accelerations to use; set before `load`."""

    lossy: Sequence[LossyMode] = ()
    """Which modes to use that are faster and change the output; set before `load`."""

    def __init__(self) -> None:
        self.name = f"diffusers {version('diffusers')}"
        self.startup_logs: list[str] = []
        self.plan = ParallelPlan()
        self.startup_seconds: dict[str, float] = {}
        self.caches: Path | None = None
        self._checkpoint: LoadedCheckpoint | None = None
        self._cancellation = JobCancellation("generation")
        self._hub_cache: TemporaryDirectory[str] | None = None
        self._steps: dict[str, tuple[int, int]] = {}

    def load(self, model_dir: Path, context: int | None = None) -> None:  # noqa: ARG002 - of the protocol
        """Import the libraries, load the guardrails and the checkpoint, and warm up; blocks.

        Raises Failure: ModelUnavailable if the checkpoint cannot be loaded, EngineFailed if guardrails or a lossy mode
        cannot.
        """
        journal = Journal()
        self.startup_logs = journal.lines
        journal.note(f"loading {model_dir.name} with {self.name}")
        os.environ.update(expandable_segments())  # before torch is imported; this process has one engine
        if self.caches is not None:
            os.environ.update(cache_variables(self.caches))
        self.startup_seconds = {}
        with timed(self.startup_seconds, "imports"):
            import_libraries(journal)
        with timed(self.startup_seconds, "weights"):
            guardrails = self._load_guardrails()
            checkpoint = load_checkpoint(
                model_dir, guardrails, self.plan.offload, self.accelerations, journal, self.lossy
            )
        with timed(self.startup_seconds, "compile"):
            checkpoint.warm_up(journal)
        self._checkpoint = checkpoint
        self._media = ThreadPoolExecutor(1, "media")
        self._generating = ThreadPoolExecutor(1, "generate")
        journal.note("ready")

    def compiled_for(self) -> dict[str, str]:
        """Return the facts that compiled code depends on beside the model, the lossy modes among them."""
        return {**compiled_for(gpus_here(), "diffusers"), "lossy": ", ".join(sorted(self.lossy))}

    async def run(self, job: Job, workdir: Path) -> GeneratorOutput:
        """Do one job; see `generate`."""
        assert job.generation is not None, "the plan function settles one for every generator job"

        def progress(done: int, total: int) -> None:
            self._steps[job.job_id] = done, total

        try:
            return await self.generate(job.generation, generation_files(job, workdir), workdir, progress)
        finally:
            self._steps.pop(job.job_id, None)

    def steps(self, job_id: str) -> tuple[int, int] | None:
        """Return how many denoising steps of a job are done and how many it has."""
        return self._steps.get(job_id)

    async def generate(
        self, generation: Generation, files: GenerationFiles, folder: Path, progress: StepProgress = _ignore_progress
    ) -> GeneratorOutput:
        """Generate, and write the files into `folder`. Cancelling the task stops it within one step or frame.

        Raises Failure: InvalidInput, Blocked, EngineFailed, or Cancelled if the engine was closed meanwhile.
        """
        checkpoint = self._loaded()
        refuse_unsupported(checkpoint, generation)
        loop = asyncio.get_running_loop()
        with self._cancellation.scope() as check:
            work = _DiffusersJob(checkpoint, folder, check, progress)
            prepared = await loop.run_in_executor(
                self._media, run_with_failures, _LESS, work.prepare, generation, files
            )
            return await self._generate_and_write(work, prepared)

    async def _generate_and_write(self, work: "_DiffusersJob", prepared: PreparedGeneration) -> GeneratorOutput:
        """Generate in one thread, and write in another what the first hands over, while its frames are decoded."""
        loop = asyncio.get_running_loop()
        handed_over: asyncio.Future[GeneratedMedia] = loop.create_future()

        def hand_over(media: GeneratedMedia) -> None:
            loop.call_soon_threadsafe(handed_over.set_result, media)

        generating = loop.run_in_executor(
            self._generating, run_with_failures, _LESS, work.generate, prepared, hand_over
        )
        writing: asyncio.Future[list[GeneratedFile]] | None = None
        try:
            await asyncio.wait((generating, handed_over), return_when=asyncio.FIRST_COMPLETED)
            if not handed_over.done():
                await generating  # this raises, because there is no result
            media = handed_over.result()
            writing = loop.run_in_executor(self._media, run_with_failures, _LESS, work.write, media, prepared)
            await generating
            return work.output(await writing, prepared)
        finally:
            # Where the job is cancelled or one of both has failed, nobody asks the other for its exception.
            for future in (generating, writing):
                if future is not None:
                    future.cancel()
            # An exception's traceback has this frame: with its future in it, a cycle would keep memory of the GPU.
            del generating, writing, future

    def close(self) -> None:
        """Abandon all jobs and free the model. `load` may be called again."""
        if self._checkpoint is None:
            return
        self._cancellation.cancel_all()
        self._media.shutdown()
        self._generating.shutdown()
        self._checkpoint = None
        if self._hub_cache is not None:
            self._hub_cache.cleanup()
        free_memory()

    def _load_guardrails(self) -> LoadedGuardrails | None:
        if not self.guardrails:
            return None
        self._hub_cache = TemporaryDirectory(prefix="hub-")  # kept open: some files are read at the first job
        return load_guardrails(Path(self._hub_cache.name), self.guardrail_models)

    def _loaded(self) -> LoadedCheckpoint:
        if self._checkpoint is None:
            raise Failure("Internal", "The engine has no model loaded.", "Load a model first.")
        return self._checkpoint


class _DiffusersJob:
    """A job's steps, each of which runs in one of the engine's threads. `write` and the end of `generate` overlap."""

    def __init__(
        self, checkpoint: LoadedCheckpoint, folder: Path, check: Callable[[], None], progress: StepProgress
    ) -> None:
        self._checkpoint, self._folder, self._check, self._progress = checkpoint, folder, check, progress
        self._journal = TimedJournal()
        self._peak: int | None = None
        self._checks = Checks()
        self._generated = 0.0  # when the generation ended, a time of the monotonic clock

    def prepare(self, generation: Generation, files: GenerationFiles) -> PreparedGeneration:
        with self._journal.timed("prepare"):
            return settle_prompt_length(self._checkpoint, prepare(generation, files, self._check))

    def generate(self, prepared: PreparedGeneration, hand_over: Callable[[GeneratedMedia], object]) -> None:
        """Generate, and hand over the media, whose frames arrive until this returns."""
        import torch

        began = time.monotonic()
        on_gpu = self._checkpoint.device == "cuda"
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()

        def step(done: int, total: int) -> None:
            self._check()
            if done == 1:
                self._journal.took("firstStep", began)
            self._progress(done, total)

        guardrails = self._checkpoint.guardrails if prepared.generation.guardrails else None
        if guardrails is not None:
            guardrails.verdicts.clear()
        with self._journal.listening("diffusers"):
            rendered = generate(self._checkpoint, prepared, step)
        if guardrails is not None:
            self._checks = guardrails.checks
        frames = FrameQueue()
        hand_over(replace(rendered, frames=frames))
        frames.fill(rendered.frames, self._check)
        self._peak = torch.cuda.max_memory_allocated() if on_gpu else None
        self._journal.took("generate", began)
        self._generated = time.monotonic()

    def write(self, rendered: GeneratedMedia, prepared: PreparedGeneration) -> list[GeneratedFile]:
        return write_files(rendered, prepared.generation, self._folder, self._check)

    def output(self, files: list[GeneratedFile], prepared: PreparedGeneration) -> GeneratorOutput:
        """Return the job's output. Writing counts as a phase from the end of the generation."""
        self._journal.took("write", self._generated)
        return GeneratorOutput(
            files=files,
            generation=prepared.generation,
            timings=self._journal.seconds,
            logs=self._journal.lines,
            checks=self._checks,
            facts={
                "scheduler": prepared.generation.scheduler,
                "device": self._checkpoint.device,
                "peakGpuBytes": self._peak,
            },
        )
