"""Answers with NVIDIA's Cosmos Framework: one torchrun group with the reasoner of a Cosmos 3 model, loaded once.

It looks at one image a request. Of videos the framework takes MP4 alone, samples them by rules of its own, and knows no
part of one: they are refused here.
"""

import asyncio
import logging
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx2

from cosmos_batch.contract import Answer, Error, Failure, Job, Usage
from cosmos_batch.contract.catalogue import DEFAULT_SYSTEM_PROMPT, IMAGE_EXTENSIONS
from cosmos_batch.contract.s3 import extension
from cosmos_batch.engines import EngineDied, input_paths
from cosmos_batch.engines.chat import said_by
from cosmos_batch.engines.gpus import gpus_here
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.question import Question, Reader, prepare
from cosmos_batch.engines.reasoning import split_reasoning
from cosmos_batch.engines.server import Server, ServerDied
from cosmos_batch.engines.vllm_command import within

REVISION = "5eee9ed574255f017b192161bfbb5a10253d65cf"  # of NVIDIA/cosmos-framework, as containers/framework has it
START_SECONDS = 1800
DEATHS_IN_A_ROW = 3
_DYING_SECONDS = 30  # torchrun waits for its other processes
_STARTUP_LINES = 200
_TAKE_VLLM = "Set the pipeline's engine to 'vllm', which takes it."

log = logging.getLogger(__name__)


class FrameworkEngine:
    """`Engine` for the reasoners of Cosmos 3."""

    concurrency = 2
    """One job generates, the next is prepared meanwhile."""

    def __init__(self) -> None:
        self.name = f"cosmos-framework {REVISION[:7]}"
        self.startup_logs: list[str] = []
        self._server: Server | None = None
        self._deaths = 0
        self._closed = threading.Event()

    def load(self, model_dir: Path, context: int | None = None) -> None:
        """Start the group and wait until it has loaded the model; blocks.

        Raises Failure: ModelUnavailable where the checkpoint is none, EngineFailed where the group does not start.
        """
        if not (model_dir / "config.json").is_file():
            raise Failure(
                "ModelUnavailable",
                f"{model_dir.name} is no checkpoint: it has no config.json.",
                "Use a complete checkpoint of Cosmos 3; set INVALIDATE_COSMOS_MODELS to fetch it anew.",
            )
        self._folder = model_dir
        self._reader = Reader.of_folder(model_dir, within(model_dir, context))
        self._turn = asyncio.Lock()
        self._preparing = ThreadPoolExecutor(1, "prepare")
        self._closed.clear()
        self._start()

    async def run(self, job: Job, workdir: Path) -> Answer:
        """Answer one job. Cancelling abandons it; what the group generates, it generates to its end.

        Raises Failure (InvalidInput for what is not one image), and EngineDied where the group ended.
        """
        refuse_others(job)
        abandoned = threading.Event()

        def check() -> None:
            if abandoned.is_set() or self._closed.is_set():
                raise Failure("Cancelled", "The answer was abandoned before it was finished.", "Ask again.")

        try:
            question = await asyncio.get_running_loop().run_in_executor(
                self._preparing, prepare, self._reader, job, input_paths(job, workdir), check
            )
        finally:
            abandoned.set()
        async with self._turn:
            return await self._ask(question, {"sample": sample_of(question), "folder": str(workdir / "framework")})

    def close(self) -> None:
        """End the group, also one that is being started; `load` may be called again."""
        if self._server is not None:
            self._closed.set()
            self._server.stop()
            self._server = None
            self._preparing.shutdown()

    def _start(self) -> None:
        journal = Journal()
        journal.note(f"starting {self.name} with {max(1, gpus_here())} processes")
        server = Server(partial(group_command, self._folder), group_environment, partial(_note_start, journal))
        self._server = server
        if self._closed.is_set():  # and `close` did not see this one
            server.stop()
        try:
            server.wait_until_ready(START_SECONDS)
        except ServerDied as died:
            said = " ".join(line.strip() for line in server.last_lines[-3:])[:500]
            raise Failure(
                "EngineFailed",
                f"Cosmos Framework, started for {self._folder.name}, {died}. {said}",
                "See the worker's log. If the model does not fit, choose GPUs with more memory; or use engine 'vllm'.",
                retryable=True,
            ) from died
        transport = httpx2.AsyncHTTPTransport(uds=str(server.socket))
        self._client = httpx2.AsyncClient(transport=transport, base_url="http://engine", timeout=None)
        self.startup_logs = [*journal.lines, f"{self.name} is ready"]

    async def _ask(self, question: Question, body: dict[str, Any]) -> Answer:
        server = await self._alive()
        began = time.monotonic()
        try:
            response = await self._client.post("/sample", json=body)
        except httpx2.TransportError as error:
            raise await self._death(server, error) from error
        if not response.is_success:
            raise Failure(
                "EngineFailed",
                f"Cosmos Framework refused the request: {said_by(response)}",
                "Try it again; if it fails again, use engine 'vllm'.",
                retryable=response.is_server_error,
            )
        self._deaths = 0
        return self._answer(question, str(response.json()["text"]), time.monotonic() - began)

    async def _alive(self) -> Server:
        """The group, started again where it ended."""
        if self._server is None:
            raise Failure("Internal", "The engine was asked before it had loaded a model.", "Load a model first.")
        if not self._server.is_running:
            try:
                await asyncio.to_thread(self._start)
            except Failure as failure:
                raise EngineDied(failure.error, for_good=True) from failure
        return self._server

    async def _death(self, server: Server, error: Exception) -> Exception:
        if not await asyncio.to_thread(server.wait, _DYING_SECONDS):
            return Failure("EngineFailed", f"The engine dropped the request: {error}", "Try it again.", retryable=True)
        await asyncio.to_thread(server.stop)  # processes of the group that outlived the first one
        self._deaths += 1
        log.error("the engine %s; it starts again", server.obituary())
        told = Error(
            code="EngineFailed",
            message=f"The engine {server.obituary()} while it worked.",
            remedy="The job is tried again, alone. See the worker's log.",
            retryable=True,
        )
        return EngineDied(told, for_good=self._deaths >= DEATHS_IN_A_ROW)

    def _answer(self, question: Question, said: str, seconds: float) -> Answer:
        """The framework tells no counts: tokens are counted here, with the checkpoint's tokenizer."""
        tokens = self._reader.count(said)
        question.journal.note(f"answer: {tokens:,} tokens in {seconds:.2f} s")
        text, reasoning = split_reasoning(said)
        timings = {**question.timings, "generate": seconds}
        return Answer(
            text=text,
            reasoning=reasoning,
            finish_reason="length" if tokens >= question.body["max_tokens"] else "stop",
            usage=Usage(prompt_tokens=question.tokens, completion_tokens=tokens),
            timings={phase: round(value, 3) for phase, value in timings.items()},
            logs=question.journal.lines,
            notes=question.notes,
        )


def refuse_others(job: Job) -> None:
    """Raises Failure for what is not one image."""
    if job.more_inputs:
        raise Failure("InvalidInput", "Cosmos Framework looks at one image a request, not at several.", _TAKE_VLLM)
    if extension(job.inputs[0].key) not in IMAGE_EXTENSIONS:
        raise Failure("InvalidInput", f"{job.inputs[0].name} is a video; Cosmos Framework looks at images.", _TAKE_VLLM)


def sample_of(question: Question) -> dict[str, Any]:
    """A prepared question as the framework's argument model has it, which refuses what it does not know.

    It has no system prompt: one that is not the default stands before the question. A temperature of 0 is another mode,
    and all tokens are said by leaving `top_k` out.
    """
    body = question.body
    system, user = body["messages"]
    image, asked = user["content"]
    prompt = asked["text"] if system["content"] == DEFAULT_SYSTEM_PROMPT else f"{system['content']}\n\n{asked['text']}"
    sample: dict[str, Any] = {
        "model_mode": "reasoner",
        "name": "sample",
        "prompt": prompt,
        "vision_path": unquote(urlsplit(image["image_url"]["url"]).path),
        "max_new_tokens": body["max_tokens"],
        "seed": body["seed"],
        "repetition_penalty": body["repetition_penalty"],
        "presence_penalty": body["presence_penalty"],
        "do_sample": body["temperature"] > 0,
    }
    if body["temperature"] > 0:
        sample |= {"temperature": body["temperature"], "top_p": body["top_p"]}
        sample |= {"top_k": body["top_k"]} if body["top_k"] else {}
    return sample


def group_command(folder: Path, socket: Path) -> list[str]:
    """One process for each GPU, in a group that only this machine sees."""
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(max(1, gpus_here())),
    ]
    driver = ["-m", "cosmos_batch.engines.framework_driver", "--checkpoint", str(folder), "--socket", str(socket)]
    return [*torchrun, *driver, "--scratch", str(socket.parent / "framework")]


def group_environment(_socket: Path) -> dict[str, str]:
    """Variables beside our own. Nothing is asked of the network."""
    return {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}


def _note_start(journal: Journal, line: str) -> None:
    if len(journal.lines) < _STARTUP_LINES:
        journal.note(line)
