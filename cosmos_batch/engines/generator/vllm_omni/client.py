"""vLLM-Omni's HTTP API: an image in one answer, a video as a job that is polled and forgotten."""

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2
import numpy as np

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.guardrails import blocked, unjudged
from cosmos_batch.engines.generator.vllm_omni.command import LESS_MEMORY
from cosmos_batch.engines.generator.vllm_omni.requests import VideoForm
from cosmos_batch.engines.serving.dialect import dialect_of
from cosmos_batch.engines.serving.openai_errors import error_message, refusal
from cosmos_batch.engines.serving.server import ServerFault
from cosmos_batch.engines.strict_guardrails import UNJUDGED
from cosmos_batch.engines.torch_errors import mentions_out_of_memory

POLL_SECONDS = 0.2
_FORGET_SECONDS = 10  # it waits some seconds itself for what it aborts
_GUARDRAIL = "blocked by Cosmos3 guardrails"

Send = Callable[..., Awaitable[httpx2.Response]]
"""Sends a request, by its method and its path below `/v1/`, with what httpx2 takes besides."""


@dataclass(frozen=True)
class ServerOutput:
    """What a server made.

    Attributes
    ----------
    content
        A PNG, or an MP4.
    actions
        Of modes that predict them: one row for each.
    facts
        What it says about how.
    """

    content: bytes
    actions: np.ndarray | None = None
    facts: dict[str, Any] = field(default_factory=dict)


async def make_image(send: Send, body: dict[str, Any]) -> ServerOutput:
    """Make one. Cancelling aborts it. Raises Failure, and ServerFault where the server failed at it."""
    response = await send("POST", "images/generations", json=body)
    if not response.is_success:
        raise failed(response.status_code, error_message(response))
    said = _object(response)
    try:
        content = base64.b64decode(said["data"][0]["b64_json"], validate=True)
    except (LookupError, TypeError, binascii.Error) as error:
        raise _nonsense("image") from error
    return ServerOutput(content, facts=_facts(said.get("metrics")))


async def make_video(send: Send, form: VideoForm) -> ServerOutput:
    """Make one. Cancelling aborts it. Raises as `make_image`."""
    response = await send("POST", "videos", files=form.parts)
    if not response.is_success:
        raise failed(response.status_code, error_message(response))
    if not isinstance(job := _object(response).get("id"), str):
        raise _nonsense("job")
    try:
        said = await _until_completed(send, job)
        content = await send("GET", f"videos/{job}/content")
        if not content.is_success:
            raise failed(content.status_code, error_message(content))
        return ServerOutput(content.content, _actions(said.get("action")), _facts(said))
    finally:
        await _forget(send, job)


async def _until_completed(send: Send, job: str) -> dict[str, Any]:
    """A job that failed comes with the status of its error."""
    while True:
        response = await send("GET", f"videos/{job}")
        said = _object(response)
        status = said.get("status")
        if status == "failed":
            error = said.get("error") or {}
            raise failed(response.status_code, str(error.get("message") or "it does not say why"))
        if not response.is_success:
            raise failed(response.status_code, error_message(response))
        if status == "completed":
            return said
        await asyncio.sleep(POLL_SECONDS)


async def _forget(send: Send, job: str) -> None:
    """Delete a job with its file; one under way is aborted, as far as the server can."""
    with suppress(httpx2.TransportError, Failure, TimeoutError):
        async with asyncio.timeout(_FORGET_SECONDS):
            await send("DELETE", f"videos/{job}")


def failed(status: int, said: str) -> Failure:
    """What it means that a server did not make something. Its guardrails check prompts, and blur outputs.

    It computes one job at a time: the same job would need as much memory again.
    """
    if _GUARDRAIL in said:
        return blocked("prompt" if f"Input was {_GUARDRAIL}" in said else "output")
    if UNJUDGED in said:
        return unjudged(said[said.index(UNJUDGED) :])
    if mentions_out_of_memory(said):
        return ServerFault("EngineFailed", f"Memory ran out on this job: {said}", LESS_MEMORY)
    return refusal(status, said, dialect_of("vllm-omni"))


def _object(response: httpx2.Response) -> dict[str, Any]:
    try:
        said = response.json()
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _actions(said: Any) -> np.ndarray | None:
    if said is None:
        return None
    try:
        return np.asarray(said["data"], np.float64)
    except (ValueError, LookupError, TypeError) as error:
        raise _nonsense("actions") from error


def _facts(said: Any) -> dict[str, Any]:
    """How long its stages took, by its own names, and the largest memory that it used, as far as it says so."""
    told = said if isinstance(said, dict) else {}
    facts: dict[str, Any] = {}
    if isinstance(durations := told.get("stage_durations"), dict) and durations:
        facts["stages"] = durations
    if isinstance(peak := told.get("peak_memory_mb"), int | float) and peak:
        facts["peakGpuBytes"] = round(peak * (1 << 20))
    return facts


def _nonsense(wanted: str) -> Failure:
    return Failure(
        "EngineFailed",
        f"The engine's answer holds no {wanted}.",
        "Check that it is a vLLM-Omni server of release 0.30; try again.",
        retryable=True,
    )
