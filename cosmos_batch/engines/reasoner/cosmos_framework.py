"""The reasoner engine on NVIDIA's Cosmos Framework: a torchrun group with the reasoner of a Cosmos 3 model, loaded
once.

A request shows the model one image. Videos are refused here: the framework takes MP4 only, samples frames by rules of
its own, and cannot take a part of a video.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from cosmos_batch.catalogue.engines import ENGINES
from cosmos_batch.catalogue.pipelines import DEFAULT_SYSTEM_PROMPT
from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer, Usage
from cosmos_batch.engines.checkpoints import context_length, refuse_incomplete
from cosmos_batch.engines.cosmos_framework import DRIVER, REVISION
from cosmos_batch.engines.gpus import gpus_here
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.engines.job_threads import JobCancellation
from cosmos_batch.engines.reasoner.chat_request import ChatRequest, CheckpointInfo, prepare_request
from cosmos_batch.engines.reasoner.think_tags import split_reasoning
from cosmos_batch.engines.serving.dialect import dialect_of
from cosmos_batch.engines.serving.served_model import ServedModel
from cosmos_batch.engines.torchrun.group import GroupPlan, send_work
from cosmos_batch.planning.questions import refuse_unseen_files, video_not_seen

NAME = "cosmos-framework-reasoner"
_LESS_MEMORY = "Choose GPUs with more memory; or use engine 'vllm', which needs less."


class FrameworkReasoner:
    """An `Engine` for the reasoners of Cosmos 3."""

    concurrency = 2
    """One job generates while the files of the next are decoded."""

    def __init__(self) -> None:
        self.name = f"cosmos-framework {REVISION[:7]}"
        plan = GroupPlan(
            ENGINES[NAME].title,
            DRIVER,
            max(1, gpus_here()),
            less_memory=_LESS_MEMORY,
            expandable_segments=True,
        )
        self._served = ServedModel(self.name, plan, dialect_of(NAME))
        self._cancellation = JobCancellation("answer")
        self._turn: asyncio.Lock | None = None

    @property
    def startup_logs(self) -> list[str]:
        """Return the lines that the group printed during its last start."""
        return self._served.startup_logs

    def load(self, model_dir: Path, context: int | None = None) -> None:
        """Start the group and block until it has loaded the model.

        Raises Failure: ModelUnavailable where the folder holds no checkpoint, EngineFailed where the group does not
        start.
        """
        refuse_incomplete(model_dir, "config.json", models="Cosmos 3")
        self._checkpoint = CheckpointInfo.from_folder(model_dir, context_length(model_dir, context))
        self._turn = asyncio.Lock()
        self._media_thread = ThreadPoolExecutor(1, "prepare")
        self._served.start(model_dir)

    async def run(self, job: Job, workdir: Path) -> Answer:
        """Answer one job. Cancelling the task abandons it, but the group goes on until its answer is complete.

        Raises Failure (InvalidInput for anything but one image), and EngineDied where the group ended.
        """
        refuse_unseen_files(NAME, job.inputs[0].name, [file.name for file in job.more_inputs])
        if self._turn is None:
            raise Failure("Internal", "The engine was asked before it had loaded a model.", "Load a model first.")
        paths = input_paths(job, workdir)
        with self._cancellation.scope() as check:
            request = await asyncio.get_running_loop().run_in_executor(
                self._media_thread, prepare_request, self._checkpoint, job, paths, check
            )
        if any(part["type"] == "video_url" for part in request.body["messages"][-1]["content"]):
            raise video_not_seen(NAME, job.inputs[0].name)  # its content decides, not its name
        body = {"sample": sample_of(request), "folder": str(workdir / "framework"), "guardrails": False}
        send = partial(send_work, body=body, engine=ENGINES[NAME].title, less_memory=_LESS_MEMORY)
        async with self._turn:
            began = time.monotonic()
            result = await self._served.request(send)
            return self._answer(request, str(result["content"]["reasoner_text"]), time.monotonic() - began)

    def close(self) -> None:
        """End the group, also one that is starting; `load` may be called again."""
        self._cancellation.cancel_all()
        self._served.close()
        if self._turn is not None:
            self._turn = None
            self._media_thread.shutdown()

    def _answer(self, request: ChatRequest, output: str, seconds: float) -> Answer:
        """Return the answer. The framework reports no token counts, so its tokens are counted here."""
        tokens = self._checkpoint.count(output)
        request.journal.note(f"answer: {counted(tokens, 'token')} in {seconds:.2f} s")
        text, reasoning = split_reasoning(output)
        timings = {**request.timings, "generate": seconds}
        return Answer(
            text=text,
            reasoning=reasoning,
            finish_reason="length" if tokens >= request.body["max_tokens"] else "stop",
            usage=Usage(prompt_tokens=request.tokens, completion_tokens=tokens),
            timings={phase: round(value, 3) for phase, value in timings.items()},
            logs=request.journal.lines,
            notes=request.notes,
        )


def sample_of(request: ChatRequest) -> dict[str, Any]:
    """Return a chat request as a sample of the framework's argument model, which refuses unknown fields.

    The framework has no system prompt: one that is not the default is put before the question. A temperature of 0 is
    its greedy mode, and leaving `top_k` out means all tokens.
    """
    body = request.body
    system, user = body["messages"]
    image, question = user["content"]
    text = question["text"]
    prompt = text if system["content"] == DEFAULT_SYSTEM_PROMPT else f"{system['content']}\n\n{text}"
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
