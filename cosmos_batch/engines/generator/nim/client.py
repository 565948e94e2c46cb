"""A client of `POST /v1/infer`: one request, whose response has the file and the actions."""

import base64
import re
from typing import Any

import httpx2
import numpy as np
from pydantic import BaseModel

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.guardrails import blocked
from cosmos_batch.engines.generator.served_job import ServerOutput
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.serving.remote_server import RemoteServer
from cosmos_batch.engines.serving.server import ServerFault
from cosmos_batch.engines.torch_errors import mentions_out_of_memory

_REFUSED = 422
# NVIDIA documents neither the type nor the words of such an error.
_BY_GUARDRAILS = re.compile(r"guardrail|content[ _-]?polic|unsafe[ _-]?content", re.IGNORECASE)
_LESS_MEMORY = "Give the server GPUs with more memory, or ask for a lower resolution or numFrames."


class PredictedActions(BaseModel):
    """The actions of a response; its other fields repeat the request."""

    data: list[list[float]]


class InferResponse(BaseModel):
    """A successful response. What does not belong to the task is absent or null."""

    b64_image: str | None = None
    b64_video: str | None = None
    action: PredictedActions | None = None


async def infer(server: RemoteServer, journal: Journal, body: dict[str, Any], *, is_video: bool) -> ServerOutput:
    """Have a generation made. Cancelling closes the connection; the server may finish the generation nevertheless.

    Raises Failure: InvalidInput or Blocked if the request is at fault, EngineFailed or ModelUnavailable if the server
    is; it is a ServerFault or ServerUnavailable if it can be tried again.
    """
    response = await server.send(journal, "POST", "infer", json=body)
    if not response.is_success:
        raise _failure(server, response, body)
    return _output(response, is_video)


def _failure(server: RemoteServer, response: httpx2.Response, body: dict[str, Any]) -> Failure:
    """Return the failure for an error response to a request."""
    message = server.message_of(response)
    if response.status_code == _REFUSED and _is_by_guardrails(response, message, body):
        return blocked("promptOrOutput")
    if response.status_code == _REFUSED:
        return Failure(
            "InvalidInput",
            f"The server refused the request: {message}",
            "Change what it names, or use a pipeline whose model can do it.",
        )
    if mentions_out_of_memory(message):
        # It is not retried, because it would need as much memory again.
        return ServerFault("EngineFailed", f"Memory ran out on this job: {message}", _LESS_MEMORY)
    return server.refusal(response)


def _is_by_guardrails(response: httpx2.Response, message: str, body: dict[str, Any]) -> bool:
    """Return whether the error's type or its message speaks of guardrails. A message may quote the request's prompts,
    which may speak of guardrails of a road."""
    for quoted in (body.get("prompt"), body.get("negative_prompt")):
        message = message.replace(quoted, "") if quoted else message
    try:
        kind = str(response.json()["error"]["type"])
    except (ValueError, LookupError, TypeError):
        kind = ""
    return _BY_GUARDRAILS.search(f"{kind} {message}") is not None


def _output(response: httpx2.Response, is_video: bool) -> ServerOutput:
    wanted = "video" if is_video else "image"
    try:
        answer = InferResponse.model_validate_json(response.content)
        encoded = (answer.b64_video if is_video else answer.b64_image) or ""
        content = base64.b64decode(encoded.rpartition(",")[2], validate=True)  # NVIDIA's clients take data URLs too
        actions = None if answer.action is None else np.asarray(answer.action.data, np.float64)
    except ValueError as error:  # no such JSON, no base64, or rows of different lengths
        raise _unusable(wanted) from error
    if not content:
        raise _unusable(wanted)
    return ServerOutput(content, actions)


def _unusable(wanted: str) -> Failure:
    return Failure(
        "EngineFailed",
        f"The server's response holds no {wanted}, or one that cannot be read.",
        "Check that it is a NIM of Cosmos 3's generator, of release 2.0 or later; try again.",
        retryable=True,
    )
