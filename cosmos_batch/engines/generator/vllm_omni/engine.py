"""The engine `vllm-omni`: a vLLM-Omni server as a child process, in which one job at a time is denoised.

After a job's last step the server decodes the latents, encodes a file and sends it, which takes seconds in which the
GPU would idle. So the next job is sent as soon as the server prints the last step, and waits in the server's own queue.

Inputs are prepared and outputs written in the worker's process; see `job`. The server's log lines name no request, so a
job's log holds only lines of our own.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import httpx2
from tokenizers import Tokenizer

from cosmos_batch.catalogue.generation import LossyMode
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.guardrails import Checks
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import GeneratorOutput
from cosmos_batch.engines.checkpoints import (
    GENERATOR_PARTS,
    GENERATORS,
    fixed_noise_levels,
    refuse_incomplete,
    refuse_other_steps,
)
from cosmos_batch.engines.compile_cache import compiled_for
from cosmos_batch.engines.generator.guardrails import GUARDRAIL_PACKAGE, explain_guardrail_failures, guardrails_failed
from cosmos_batch.engines.generator.inputs import refuse_missing_parts
from cosmos_batch.engines.generator.served_job import ServerOutput
from cosmos_batch.engines.generator.vllm_omni.command import OmniPlan, finished_bars, latest_progress
from cosmos_batch.engines.generator.vllm_omni.job import OmniJob, PreparedRequest
from cosmos_batch.engines.generator.vllm_omni.plugin import LOADED_MARKER, take_verdicts
from cosmos_batch.engines.gpus import gpus_here
from cosmos_batch.engines.job_files import GenerationFiles, generation_files
from cosmos_batch.engines.job_threads import JobCancellation
from cosmos_batch.engines.journal import TimedJournal
from cosmos_batch.engines.serving.dialect import Phases, dialect_of
from cosmos_batch.engines.serving.read_ahead import read_ahead
from cosmos_batch.engines.serving.served_model import ServedModel

_POLL_SECONDS = 0.1  # the shortest time between two updates of the server's progress bar


class VllmOmniEngine:
    """The engine for checkpoints of vLLM-Omni's `Cosmos3OmniDiffusersPipeline`. It has all optional interfaces of
    `engines.protocol` but `RemoteEngine`."""

    concurrency = 2
    """One job is generated; another is prepared, or written, at the same time."""

    guardrails = True
    """Whether to load guardrails; set before `load`."""

    guardrail_models: Mapping[str, Path] = MappingProxyType({})
    """Local copies of the guardrails' models by their names on the Hub; set before `load`."""

    lossy: Sequence[LossyMode] = ()
    """Which modes to use that are faster and change the output; set before `load`."""

    def __init__(self) -> None:
        self.name = f"vllm-omni {version('vllm-omni')}"
        self.caches: Path | None = None
        self.plan = ParallelPlan()
        self._served = ServedModel(
            self.name, OmniPlan(self.plan, gpus_here(), self.guardrails), dialect_of("vllm-omni")
        )
        self._tokenizer: Tokenizer | None = None
        self._current = ("", 0)  # the job that has the turn, and the count of the server's lines when it began
        self._final_steps: dict[str, tuple[int, int] | None] = {}  # for jobs that released their turn before their end
        self._cancellation = JobCancellation("generation")

    @property
    def startup_logs(self) -> list[str]:
        """Return the log lines of the server's last start."""
        return self._served.startup_logs

    @property
    def startup_seconds(self) -> Phases:
        """Return the seconds that each phase of the last start took."""
        return self._served.startup_seconds

    def compiled_for(self) -> dict[str, str]:
        """Return the facts that compiled code depends on beside the model, the plan of GPUs among them."""
        libraries = compiled_for(self._served.plan.gpus, "vllm", "diffusers")
        return {**libraries, "engine": self.name, "plan": str(self.plan)}

    def load(self, model_dir: Path, context: int | None = None) -> None:  # noqa: ARG002 - of the protocol
        """Start the server and wait until it answers; blocks.

        Raises Failure: ModelUnavailable if the checkpoint is broken or does not fit into the GPUs' memory, EngineFailed
        if the server does not start, or starts without our plugin.
        """
        refuse_incomplete(model_dir, *GENERATOR_PARTS, models=GENERATORS)
        levels = fixed_noise_levels(model_dir)
        self._fixed_steps = None if levels is None else len(levels)
        self._model = model_dir.name
        self._transformer: dict[str, Any] = json.loads((model_dir / "transformer" / "config.json").read_text("utf-8"))
        models = self.guardrail_models if self.guardrails else {}
        self._verdicts = TemporaryDirectory(prefix="verdicts-")
        self._served.plan = replace(
            self._served.plan,
            parallel=self.plan,
            guardrails=self.guardrails,
            guardrail_models=models,
            verdicts=Path(self._verdicts.name) if self.guardrails else None,
            sea_cache="seaCache" in self.lossy,
        )
        self._served.caches = self.caches
        self._tokenizer = Tokenizer.from_file(str(model_dir / "text_tokenizer" / "tokenizer.json"))
        self._media = ThreadPoolExecutor(1, "media")
        self._turns = Turns()
        with read_ahead(model_dir), explain_guardrail_failures(lambda: self._served.lines_since(0)):
            self._served.start(model_dir)
        if self.guardrails and not (Path(self._verdicts.name) / LOADED_MARKER).exists():
            self._served.close()
            raise guardrails_failed("vLLM-Omni started without our plugin, which makes its guardrails fail closed.")

    async def run(self, job: Job, workdir: Path) -> GeneratorOutput:
        """Do one job; see `generate`."""
        assert job.generation is not None, "the plan function settles one for every generator job"
        return await self.generate(job.generation, generation_files(job, workdir), workdir, job.job_id)

    def steps(self, job_id: str) -> tuple[int, int] | None:
        """Return steps done and total of a job, as the server prints them. A transfer counts each chunk anew."""
        name, began = self._current
        return latest_progress(self._served.lines_since(began)) if name == job_id else None

    async def generate(
        self, generation: Generation, files: GenerationFiles, folder: Path, name: str = ""
    ) -> GeneratorOutput:
        """Generate, and write the files into `folder`. `name` is the job's id, for `steps`.

        Cancelling stops decoding and writing, and deletes the job on the server. Raises Failure, and EngineDied if the
        server ends meanwhile.
        """
        if self._tokenizer is None:
            raise Failure("Internal", "The engine has no model loaded.", "Load a model first.")
        refuse_other_steps(generation, self._fixed_steps, self._model)
        config = self._transformer
        refuse_missing_parts(generation, sound=bool(config.get("sound_gen")), actions=bool(config.get("action_gen")))
        on_thread = partial(asyncio.get_running_loop().run_in_executor, self._media)
        with self._cancellation.scope() as check:
            omni_job = OmniJob(folder, self._count, shares_files=True, check=check)
            request = await on_thread(omni_job.prepare, generation, files)
            output = await self._generate(omni_job, request, name)
            checks = self._checks(omni_job.name)
            written = await on_thread(omni_job.write, output, request.prepared.generation, checks)
        return written.model_copy(update={"facts": {**written.facts, "plan": str(self.plan)}})

    def close(self) -> None:
        """Abandon all jobs and stop the server. `load` may be called again."""
        self._cancellation.cancel_all()
        self._served.close()
        if self._tokenizer is not None:
            self._tokenizer = None
            self._media.shutdown()
            self._verdicts.cleanup()

    def _refuse_other_steps(self, name: str, requested: int) -> None:
        """Raise Failure if the server used another number of steps than the job's document would say, as it does with a
        distilled checkpoint."""
        progress = self._final_steps.pop(name, None) or self.steps(name)
        if progress is not None and progress[1] != requested:
            raise Failure(
                "EngineFailed",
                f"{self.name} used {progress[1]} steps instead of the {requested} requested; nothing was delivered.",
                "Check that the model is the configured one: for a distilled one the server sets its own steps.",
            )

    def _checks(self, name: str) -> Checks:
        """Return the verdicts that the server's guardrails reported for a request."""
        verdicts = take_verdicts(Path(self._verdicts.name), name)
        by = f"{GUARDRAIL_PACKAGE} {version(GUARDRAIL_PACKAGE)}" if verdicts else None
        return Checks.model_validate({"by": by, **verdicts})

    async def _generate(self, omni_job: OmniJob, request: PreparedRequest, name: str) -> ServerOutput:
        """Have the server generate. The turn is released after the job's last step, at the latest at its end."""
        async with self._turns.acquired() as turn:
            self._current = name, self._served.lines_read
            watching = asyncio.ensure_future(self._watch_steps(omni_job.journal, request.prepared.generation, turn))
            try:
                output = await self._served.request(
                    lambda connection: omni_job.generate(request, partial(_send, connection))
                )
                self._refuse_other_steps(name, request.prepared.generation.steps)
                return output
            finally:
                watching.cancel()
                self._final_steps.pop(name, None)

    async def _watch_steps(self, journal: TimedJournal, generation: Generation, turn: "Turn") -> None:
        """Note the time of the first step in the journal, and release the turn after the last one."""
        began, (name, since) = time.monotonic(), self._current
        bars = generation.transfer.chunks(generation.num_frames) if generation.transfer and generation.num_frames else 1
        while (self.steps(name) or (0, 0))[0] == 0:
            await asyncio.sleep(_POLL_SECONDS)
        journal.took("firstStep", began)
        while finished_bars(self._served.lines_since(since)) < bars:
            await asyncio.sleep(_POLL_SECONDS)
        self._final_steps[name] = self.steps(name)
        turn.release()

    def _count(self, text: str) -> int:
        assert self._tokenizer is not None, "`generate` has checked it"
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


async def _send(connection: httpx2.AsyncClient, method: str, path: str, **content: Any) -> httpx2.Response:
    return await connection.request(method, f"/v1/{path}", **content)


class Turn:
    """The right of one job to be denoised in the server."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self._is_held = True

    def release(self) -> None:
        """Let the next job begin. Further calls do nothing."""
        if self._is_held:
            self._is_held = False
            self._lock.release()


class Turns:
    """Gives the turn to one job at a time, in the order of the calls."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def acquired(self) -> AsyncIterator[Turn]:
        """Wait for the turn. It is released at the end of the context, unless the job released it before."""
        await self._lock.acquire()
        turn = Turn(self._lock)
        try:
            yield turn
        finally:
            turn.release()
