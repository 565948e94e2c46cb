"""Sending a chat completion, and turning the server's response into an answer."""

import re
import time
from typing import Any

import httpx2

from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.result import Answer, Usage
from cosmos_batch.engines.reasoner.chat_request import ChatRequest
from cosmos_batch.engines.reasoner.think_tags import split_reasoning
from cosmos_batch.engines.serving.dialect import ServerDialect
from cosmos_batch.engines.serving.openai_errors import error_message, refusal

_SCHEMA_FIELD = "response_format"
_ABOUT_SCHEMA = re.compile(r"response_format|json_schema|grammar", re.IGNORECASE)
_BAD_REQUEST, _UNPROCESSABLE = 400, 422


async def complete_chat(client: httpx2.AsyncClient, model: str, request: ChatRequest, dialect: ServerDialect) -> Answer:
    """Send a request and wait for its answer. Cancelling closes the connection, which aborts the request.

    Raises Failure where the server refuses the request, ServerFault where it failed at it, and httpx2.TransportError
    where the connection breaks.
    """
    began = time.monotonic()
    response = await client.post("/v1/chat/completions", json={"model": model, **request.body})
    if drop_refused_schema(request, response, dialect):
        response = await client.post("/v1/chat/completions", json={"model": model, **request.body})
    if not response.is_success:
        raise refusal(response.status_code, error_message(response), dialect)
    return parse_answer(request, response.json(), time.monotonic() - began)


def drop_refused_schema(request: ChatRequest, response: httpx2.Response, dialect: ServerDialect) -> bool:
    """Remove the JSON Schema from a request if the server refused it for that; return whether it did.

    The answer is then generated freely, and checked against the schema like every other.
    """
    message = error_message(response)
    if not is_bad_request(response) or _SCHEMA_FIELD not in request.body:
        return False
    if dialect.contradicts_itself(message) or not _ABOUT_SCHEMA.search(message):
        return False
    request.journal.note(f"the answer is not held to the schema while it is written: {message}")
    request.body.pop(_SCHEMA_FIELD)
    return True


def is_bad_request(response: httpx2.Response) -> bool:
    """Return whether a server says that the request itself is wrong."""
    return response.status_code in (_BAD_REQUEST, _UNPROCESSABLE)


def parse_answer(request: ChatRequest, body: dict[str, Any], seconds: float) -> Answer:
    """Return the answer in a response's body, which came after `seconds`.

    Raises Failure (Blocked) where a filter of the server held the answer back.
    """
    request.timings["generate"] = seconds
    usage = Usage(prompt_tokens=body["usage"]["prompt_tokens"], completion_tokens=body["usage"]["completion_tokens"])
    choice = body["choices"][0]
    if choice["finish_reason"] == "content_filter":
        raise Failure("Blocked", "A filter of the server held the answer back.", "Change the prompt, or the file.")
    request.journal.note(
        f"answer: {counted(usage.completion_tokens, 'token')} in {seconds:.2f} s "
        f"after {usage.prompt_tokens:,} of the prompt"
    )
    text, reasoning = _text_and_reasoning(choice["message"])
    return Answer(
        text=text,
        reasoning=reasoning,
        finish_reason="length" if choice["finish_reason"] == "length" else "stop",
        usage=usage,
        timings={phase: round(value, 3) for phase, value in request.timings.items()},
        logs=request.journal.lines,
        notes=request.notes,
        frame_times=request.frame_times,
    )


def _text_and_reasoning(message: dict[str, Any]) -> tuple[str, str | None]:
    """Return answer and reasoning of a message. A server with a reasoning parser has separated them already."""
    text, reasoning = split_reasoning(message.get("content") or "")
    return text, reasoning or message.get("reasoning") or message.get("reasoning_content")
