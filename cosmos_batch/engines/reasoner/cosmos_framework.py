"""Answers with NVIDIA's Cosmos Framework: one torchrun group with the reasoner of a Cosmos 3 model, loaded once.

It looks at one image a request. Of videos the framework takes MP4 alone, samples them by rules of its own, and knows no
part of one: they are refused here.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from cosmos_batch.catalogue.formats import medium_of
from cosmos_batch.catalogue.pipelines import DEFAULT_SYSTEM_PROMPT
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer, Usage
from cosmos_batch.engines.checkpoints import context_length, refuse_incomplete
from cosmos_batch.engines.cosmos_framework import DRIVER, REVISION
from cosmos_batch.engines.gpus import gpus_here
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.engines.job_threads import JobCancellation
from cosmos_batch.engines.reasoner.chat_request import ChatRequest, CheckpointInfo, prepare
from cosmos_batch.engines.reasoner.think_tags import split_reasoning
from cosmos_batch.engines.serving.dialect import dialect_of
from cosmos_batch.engines.serving.served_model import ServedModel
from cosmos_batch.engines.torchrun.group import GroupPlan, send_work

_TITLE = "Cosmos Framework"
_LESS_MEMORY = "Choose GPUs with more memory; or use engine 'vllm', which needs less."
_TAKE_VLLM = "Set the pipeline's engine to 'vllm', which takes it."


class FrameworkReasoner:
    """`Engine` for the reasoners of Cosmos 3."""

    concurrency = 2
    """One job generates, the next is prepared meanwhile."""

    def __init__(self) -> None:
        self.name = f"cosmos-framework {REVISION[:7]}"
        plan = GroupPlan(
            _TITLE,
            DRIVER,
            max(1, gpus_here()),
            less_memory=_LESS_MEMORY,
            expandable_segments=True,
        )
        self._served = ServedModel(self.name, plan, dialect_of("cosmos-framework-reasoner"))
        self._cancellation = JobCancellation("answer")
        self._turn: asyncio.Lock | None = None

    @property
    def startup_logs(self) -> list[str]:
        """What the group said while it started last."""
        return self._served.startup_logs

    def load(self, model_dir: Path, context: int | None = None) -> None:
        """Start the group and wait until it has loaded the model; blocks.

        Raises Failure: ModelUnavailable where the checkpoint is none, EngineFailed where the group does not start.
        """
        refuse_incomplete(model_dir, "config.json", models="Cosmos 3")
        self._reader = CheckpointInfo.of_folder(model_dir, context_length(model_dir, context))
        self._turn = asyncio.Lock()
        self._preparing = ThreadPoolExecutor(1, "prepare")
        self._served.start(model_dir)

    async def run(self, job: Job, workdir: Path) -> Answer:
        """Answer one job. Cancelling abandons it; what the group generates, it generates to its end.

        Raises Failure (InvalidInput for what is not one image), and EngineDied where the group ended.
        """
        refuse_others(job)
        if self._turn is None:
            raise Failure("Internal", "The engine was asked before it had loaded a model.", "Load a model first.")
        with self._cancellation.scope() as check:
            question = await asyncio.get_running_loop().run_in_executor(
                self._preparing, prepare, self._reader, job, input_paths(job, workdir), check
            )
        body = {"sample": sample_of(question), "folder": str(workdir / "framework"), "guardrails": False}
        async with self._turn:
            began = time.monotonic()
            said = await self._served.request(partial(send_work, body=body, engine=_TITLE, less_memory=_LESS_MEMORY))
            return self._answer(question, str(said["content"]["reasoner_text"]), time.monotonic() - began)

    def close(self) -> None:
        """End the group, also one that is being started; `load` may be called again."""
        self._cancellation.cancel_all()
        self._served.close()
        if self._turn is not None:
            self._turn = None
            self._preparing.shutdown()

    def _answer(self, question: ChatRequest, said: str, seconds: float) -> Answer:
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
    if medium_of(job.inputs[0].key) != "image":
        raise Failure("InvalidInput", f"{job.inputs[0].name} is a video; Cosmos Framework looks at images.", _TAKE_VLLM)


def sample_of(question: ChatRequest) -> dict[str, Any]:
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
