"""A client of vLLM-Omni's HTTP API: an image is one request, a video is a job that is polled and then deleted."""

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import httpx2
import numpy as np

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.guardrails import blocked, unjudged
from cosmos_batch.engines.generator.served_job import ServerOutput
from cosmos_batch.engines.generator.vllm_omni.command import LESS_MEMORY
from cosmos_batch.engines.generator.vllm_omni.requests import VideoForm
from cosmos_batch.engines.serving.dialect import dialect_of
from cosmos_batch.engines.serving.openai_errors import error_message, refusal
from cosmos_batch.engines.serving.server import ServerFault
from cosmos_batch.engines.strict_guardrails import UNJUDGED
from cosmos_batch.engines.torch_errors import mentions_out_of_memory

POLL_SECONDS = 0.2
_DELETE_SECONDS = 10  # the server itself waits some seconds for a job that it aborts
_GUARDRAIL = "blocked by Cosmos3 guardrails"

Send = Callable[..., Awaitable[httpx2.Response]]
"""Sends a request: method, path below `/v1/`, and keyword arguments of `httpx2.AsyncClient.request`."""


async def generate_image(send: Send, body: dict[str, Any]) -> ServerOutput:
    """Generate an image. Cancelling aborts it. Raises Failure, and ServerFault where the server is at fault and not the
    request."""
    response = await send("POST", "images/generations", json=body)
    if not response.is_success:
        raise server_failure(response.status_code, error_message(response))
    body = _object(response)
    try:
        content = base64.b64decode(body["data"][0]["b64_json"], validate=True)
    except (LookupError, TypeError, binascii.Error) as error:
        raise _unusable("image") from error
    return ServerOutput(content, facts=_facts(body.get("metrics")))


async def generate_video(send: Send, form: VideoForm) -> ServerOutput:
    """Generate a video. Cancelling aborts it. Raises as `generate_image` does."""
    response = await send("POST", "videos", files=form.parts)
    if not response.is_success:
        raise server_failure(response.status_code, error_message(response))
    if not isinstance(job := _object(response).get("id"), str):
        raise _unusable("job")
    try:
        body = await _until_completed(send, job)
        content = await send("GET", f"videos/{job}/content")
        if not content.is_success:
            raise server_failure(content.status_code, error_message(content))
        return ServerOutput(content.content, _actions(body.get("action")), _facts(body))
    finally:
        await _delete(send, job)


async def _until_completed(send: Send, job: str) -> dict[str, Any]:
    """Poll a job until it is completed, and return its last state. Raises the Failure of a job that failed; its
    response has the HTTP status of its error."""
    while True:
        response = await send("GET", f"videos/{job}")
        body = _object(response)
        status = body.get("status")
        if status == "failed":
            error = body.get("error") or {}
            raise server_failure(response.status_code, str(error.get("message") or "it does not say why"))
        if not response.is_success:
            raise server_failure(response.status_code, error_message(response))
        if status == "completed":
            return body
        await asyncio.sleep(POLL_SECONDS)


async def _delete(send: Send, job: str) -> None:
    """Delete a job with its file. The server aborts a running job as far as it can."""
    with suppress(httpx2.TransportError, Failure, TimeoutError):
        async with asyncio.timeout(_DELETE_SECONDS):
            await send("DELETE", f"videos/{job}")


def server_failure(status: int, message: str) -> Failure:
    """Return the Failure for a server's error, by its HTTP status and message.

    A job that ran out of memory is not retried: the server runs one job at a time, so that it would need as much again.
    """
    if _GUARDRAIL in message:
        return blocked("prompt" if f"Input was {_GUARDRAIL}" in message else "output")
    if UNJUDGED in message:
        return unjudged(message[message.index(UNJUDGED) :])
    if mentions_out_of_memory(message):
        return ServerFault("EngineFailed", f"Memory ran out on this job: {message}", LESS_MEMORY)
    return refusal(status, message, dialect_of("vllm-omni"))


def _object(response: httpx2.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _actions(body: Any) -> np.ndarray | None:
    if body is None:
        return None
    try:
        return np.asarray(body["data"], np.float64)
    except (ValueError, LookupError, TypeError) as error:
        raise _unusable("actions") from error


def _facts(body: Any) -> dict[str, Any]:
    """Return the seconds of the server's stages, by its names, and its peak memory, as far as it reports them."""
    metrics = body if isinstance(body, dict) else {}
    facts: dict[str, Any] = {}
    if isinstance(durations := metrics.get("stage_durations"), dict) and durations:
        facts["stages"] = durations
    if isinstance(peak := metrics.get("peak_memory_mb"), int | float) and peak:
        facts["peakGpuBytes"] = round(peak * (1 << 20))
    return facts


def _unusable(wanted: str) -> Failure:
    return Failure(
        "EngineFailed",
        f"The engine's answer holds no {wanted}.",
        "Check that it is a vLLM-Omni server of release 0.30; try again.",
        retryable=True,
    )
