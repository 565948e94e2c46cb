"""Generating an answer from prepared tensors."""

import time
from collections.abc import Callable
from typing import Any

from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.result import Answer, Usage
from cosmos_batch.engines.reasoner.think_tags import split_reasoning
from cosmos_batch.engines.reasoner.transformers.checkpoint import Checkpoint
from cosmos_batch.engines.reasoner.transformers.prompt import PreparedJob
from cosmos_batch.planning.questions import Sampling


def generate(checkpoint: Checkpoint, job: PreparedJob, check: Callable[[], None]) -> Answer:
    """Generate the answer to one job in the calling thread. The same seed gives the same answer.

    `check` is called after each token; an exception that it raises ends the generation.
    """
    import torch

    began = time.monotonic()
    with job.journal.listening("transformers"):
        torch.manual_seed(job.sampling.seed)
        output = checkpoint.model.generate(
            **job.inputs.to(checkpoint.device, checkpoint.model.dtype), **_settings(job, check)
        )
    tokens = output[0, job.prompt_tokens :].tolist()
    job.timings["generate"] = time.monotonic() - began
    return _answer(checkpoint, job, tokens)


def _settings(job: PreparedJob, check: Callable[[], None]) -> dict[str, Any]:
    return {
        **_sampling_settings(job.sampling),
        "max_new_tokens": job.max_tokens,
        "repetition_penalty": job.sampling.repetition_penalty,
        "logits_processor": [_presence_penalty(job.sampling.presence_penalty, job.prompt_tokens)],
        "stopping_criteria": [_calling(check)],
    }


def _sampling_settings(sampling: Sampling) -> dict[str, Any]:
    if sampling.temperature == 0:  # transformers refuses it, and warns about parameters that greedy decoding ignores
        return {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    return {
        "do_sample": True,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
    }


def _presence_penalty(penalty: float, prompt_tokens: int) -> Callable[[Any, Any], Any]:
    """Return a logits processor for OpenAI's presence penalty, which transformers lacks: it lowers the score of each
    token that the answer holds already, once.
    """

    def penalize(tokens: Any, scores: Any) -> Any:
        answer = tokens[:, prompt_tokens:]
        return scores.scatter(1, answer, scores.gather(1, answer) - penalty)

    return penalize


def _calling(check: Callable[[], None]) -> Callable[..., Any]:
    """Return a stopping criterion that calls `check` for each token and never stops by itself."""

    def unfinished(tokens: Any, _scores: Any, **_: Any) -> Any:
        check()
        return tokens.new_zeros(tokens.shape[0], dtype=bool)

    return unfinished


def _answer(checkpoint: Checkpoint, job: PreparedJob, tokens: list[int]) -> Answer:
    seconds = job.timings["generate"]
    ended = bool(tokens) and tokens[-1] in end_tokens(checkpoint.model.generation_config.eos_token_id)
    job.journal.note(
        f"answer: {counted(len(tokens), 'token')} in {seconds:.2f} s, {len(tokens) / seconds:.1f} a second"
    )
    text, reasoning = split_reasoning(checkpoint.processor.tokenizer.decode(tokens, skip_special_tokens=True))
    return Answer(
        text=text,
        reasoning=reasoning,
        finish_reason="stop" if ended else "length",
        usage=Usage(prompt_tokens=job.prompt_tokens, completion_tokens=len(tokens)),
        timings={phase: round(seconds, 3) for phase, seconds in job.timings.items()},
        logs=job.journal.lines,
        notes=job.notes,
        frame_times=job.frame_times,
    )


def end_tokens(configured: int | list[int] | None) -> list[int]:
    """Return the token ids that end an answer; a generation_config holds one id, a list, or none."""
    if configured is None:
        return []
    return [configured] if isinstance(configured, int) else configured
