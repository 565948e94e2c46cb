"""Images, videos, sound and actions with vLLM-Omni: its own server as a child, one job at a time in its steps.

After a job's last step the server decodes it, encodes a file, and hands that out, for seconds in which its GPU would
idle: the next job is sent when the last step is printed, and waits in the server's own queue.

Inputs are fitted, and results written anew, by us; see `work`. What the server prints belongs to no request,
so a job's log has our own lines alone.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
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

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.guardrails import Checks
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Made
from cosmos_batch.engines.checkpoints import GENERATOR_PARTS, GENERATORS, refuse_distilled, refuse_incomplete
from cosmos_batch.engines.compile_cache import compiled_for
from cosmos_batch.engines.generator.guardrails import GUARDRAIL_PACKAGE, explain_guardrail_failures, guardrails_failed
from cosmos_batch.engines.generator.inputs import refuse_missing_parts
from cosmos_batch.engines.generator.vllm_omni.client import ServerOutput
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

_LOOK_SECONDS = 0.1  # as often as its progress bar is drawn


class VllmOmniEngine:
    """`Engine`, and all that one may have beside that, for checkpoints of `Cosmos3OmniDiffusersPipeline`."""

    concurrency = 2
    """One job is made; the next is prepared, or the last one written, meanwhile."""

    guardrails = True
    """Whether to load guardrails; set before `load`."""

    guardrail_models: Mapping[str, Path] = MappingProxyType({})
    """Copies of their models; set before `load`."""

    def __init__(self) -> None:
        self.name = f"vllm-omni {version('vllm-omni')}"
        self.caches: Path | None = None
        self.plan = ParallelPlan()
        self._served = ServedModel(
            self.name, OmniPlan(self.plan, gpus_here(), self.guardrails), dialect_of("vllm-omni")
        )
        self._tokenizer: Tokenizer | None = None
        self._at_work = ("", 0)  # which job, since which line of the server
        self._made_in: dict[str, tuple[int, int] | None] = {}  # steps of jobs that passed their turn on
        self._cancellation = JobCancellation("generation")

    @property
    def startup_logs(self) -> list[str]:
        """What the server said while it started last."""
        return self._served.startup_logs

    @property
    def startup_seconds(self) -> Phases:
        """How long each phase of that took."""
        return self._served.startup_seconds

    def compiled_for(self) -> dict[str, str]:
        """What compiled code depends on beside the model."""
        return {
            **compiled_for(self._served.plan.gpus, "vllm", "diffusers"),
            "engine": self.name,
            "plan": str(self.plan),
        }

    def load(self, model_dir: Path, context: int | None = None) -> None:  # noqa: ARG002 - of the protocol
        """Start the server and wait until it answers; blocks.

        Raises Failure: ModelUnavailable where the checkpoint is broken or needs more memory than there is, EngineFailed
        where the server does not start.
        """
        refuse_incomplete(model_dir, *GENERATOR_PARTS, models=GENERATORS)
        refuse_distilled(model_dir)
        self._transformer: dict[str, Any] = json.loads((model_dir / "transformer" / "config.json").read_text("utf-8"))
        models = self.guardrail_models if self.guardrails else {}
        self._verdicts = TemporaryDirectory(prefix="verdicts-")
        self._served.plan = replace(
            self._served.plan,
            parallel=self.plan,
            guardrails=self.guardrails,
            guardrail_models=models,
            verdicts=Path(self._verdicts.name) if self.guardrails else None,
        )
        self._served.caches = self.caches
        self._tokenizer = Tokenizer.from_file(str(model_dir / "text_tokenizer" / "tokenizer.json"))
        self._media = ThreadPoolExecutor(1, "media")
        self._turn = Turns()
        with read_ahead(model_dir), explain_guardrail_failures(lambda: self._served.lines_since(0)):
            self._served.start(model_dir)
        if self.guardrails and not (Path(self._verdicts.name) / LOADED_MARKER).exists():
            self._served.close()
            raise guardrails_failed("vLLM-Omni started without our plugin, which has its guardrails fail closed.")

    async def run(self, job: Job, workdir: Path) -> Made:
        """Make what a job asks for, as files in `workdir`; see `generate`."""
        assert job.generation is not None, "plan decides one for every generator"
        return await self.generate(job.generation, generation_files(job, workdir), workdir, job.job_id)

    def steps(self, job_id: str) -> tuple[int, int] | None:
        """How many of how many steps of a job are done, as the server prints it; of transfer, those of one chunk."""
        name, began = self._at_work
        return latest_progress(self._served.lines_since(began)) if name == job_id else None

    async def generate(self, asked: Generation, files: GenerationFiles, folder: Path, name: str = "") -> Made:
        """Make what is asked for, as files in `folder`. Cancelling stops its media, or has the server drop it.

        Raises Failure, and EngineDied where the server ended meanwhile.
        """
        if self._tokenizer is None:
            raise Failure("Internal", "The engine was asked before it had loaded a model.", "Load a model first.")
        config = self._transformer
        refuse_missing_parts(asked, sound=bool(config.get("sound_gen")), actions=bool(config.get("action_gen")))
        on_thread = partial(asyncio.get_running_loop().run_in_executor, self._media)
        with self._cancellation.scope() as check:
            work = OmniJob(folder, self._count, shares_files=True, check=check)
            order = await on_thread(work.prepare, asked, files)
            made = await self._make(work, order, name)
            done = await on_thread(work.write, made, order, self._checks(work.name))
        return done.model_copy(update={"facts": {**done.facts, "plan": str(self.plan)}})

    def close(self) -> None:
        """Stop what runs, and the server; `load` may be called again."""
        self._cancellation.cancel_all()
        self._served.close()
        if self._tokenizer is not None:
            self._tokenizer = None
            self._media.shutdown()
            self._verdicts.cleanup()

    def _refuse_other_steps(self, name: str, asked: int) -> None:
        """Raise Failure where the server made its pictures in another number of steps, so that no document lies: with a
        distilled checkpoint its steps and guidance are its own."""
        ran = self._made_in.pop(name, None) or self.steps(name)
        if ran is not None and ran[1] != asked:
            raise Failure(
                "EngineFailed",
                f"{self.name} made it in {ran[1]} steps, where {asked} were asked for; nothing was delivered.",
                "Check that the model is no distilled checkpoint, whose steps and guidance the server fixes.",
            )

    def _checks(self, name: str) -> Checks:
        """What the server's guardrails reported of a request."""
        verdicts = take_verdicts(Path(self._verdicts.name), name)
        by = f"{GUARDRAIL_PACKAGE} {version(GUARDRAIL_PACKAGE)}" if verdicts else None
        return Checks.model_validate({"by": by, **verdicts})

    async def _make(self, work: OmniJob, order: PreparedRequest, name: str) -> ServerOutput:
        """Have the server make it. The next job's turn comes with this one's last step, at the latest with its end."""
        async with self._turn.taken() as turn:
            self._at_work = name, self._served.lines_read
            following = asyncio.ensure_future(self._follow(work.journal, order.prepared.generation, turn))
            try:
                made = await self._served.request(lambda connection: work.make(order, partial(_send, connection)))
                self._refuse_other_steps(name, order.prepared.generation.steps)
                return made
            finally:
                following.cancel()
                self._made_in.pop(name, None)

    async def _follow(self, journal: TimedJournal, asked: Generation, turn: "Turn") -> None:
        """Note when the server prints that the first step is done, and pass the turn on after the last one."""
        began, (name, since) = time.monotonic(), self._at_work
        bars = asked.transfer.chunks(asked.num_frames) if asked.transfer and asked.num_frames else 1
        while (self.steps(name) or (0, 0))[0] == 0:
            await asyncio.sleep(_LOOK_SECONDS)
        journal.took("firstStep", began)
        while finished_bars(self._served.lines_since(since)) < bars:
            await asyncio.sleep(_LOOK_SECONDS)
        self._made_in[name] = self.steps(name)
        turn.pass_on()

    def _count(self, text: str) -> int:
        assert self._tokenizer is not None, "`run` has seen it"
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


async def _send(connection: httpx2.AsyncClient, method: str, path: str, **content: Any) -> httpx2.Response:
    return await connection.request(method, f"/v1/{path}", **content)


class Turn:
    """One job's turn."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self._is_mine = True

    def pass_on(self) -> None:
        """Let the next job begin; at most once has it an effect."""
        if self._is_mine:
            self._is_mine = False
            self._lock.release()


class Turns:
    """The turns of all jobs, in the order in which they ask for them."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[Turn]:
        """Wait for a turn. It is passed on with the end of the context, if it was not before."""
        await self._lock.acquire()
        turn = Turn(self._lock)
        try:
            yield turn
        finally:
            turn.pass_on()
