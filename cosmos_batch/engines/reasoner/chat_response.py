"""OpenAI chat completions: a request and its answer."""

import re
import time
from typing import Any

import httpx2

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.result import Answer, Usage
from cosmos_batch.engines.reasoner.chat_request import ChatRequest
from cosmos_batch.engines.reasoner.think_tags import split_reasoning
from cosmos_batch.engines.serving.dialect import ServerDialect
from cosmos_batch.engines.serving.openai_errors import error_message, refusal

_CONSTRAINT = "response_format"
_OF_CONSTRAINT = re.compile(r"response_format|json_schema|grammar", re.IGNORECASE)
_BAD_REQUEST, _UNPROCESSABLE = 400, 422


async def complete_chat(
    client: httpx2.AsyncClient, model: str, question: ChatRequest, dialect: ServerDialect
) -> Answer:
    """Send a request and wait for its answer. Cancelling closes the connection, which aborts the request.

    Where the server cannot hold an answer to the caller's schema, the answer is left free: it is checked anyway.

    Raises Failure where the server refuses it, ServerFault where it failed at it, and httpx2.TransportError
    where there is no server any more.
    """
    began = time.monotonic()
    response = await client.post("/v1/chat/completions", json={"model": model, **question.body})
    if drop_schema_if_refused(question, response, dialect):
        response = await client.post("/v1/chat/completions", json={"model": model, **question.body})
    if not response.is_success:
        raise refusal(response.status_code, error_message(response), dialect)
    return parse_answer(question, response.json(), time.monotonic() - began)


def drop_schema_if_refused(question: ChatRequest, response: httpx2.Response, dialect: ServerDialect) -> bool:
    """Leave the answer free where its schema is what the server refused; whether it was."""
    said = error_message(response)
    if not is_bad_request(response) or _CONSTRAINT not in question.body:
        return False
    if dialect.contradicts_itself(said) or not _OF_CONSTRAINT.search(said):
        return False
    question.journal.note(f"the answer is not held to the schema while it is written: {said}")
    question.body.pop(_CONSTRAINT)
    return True


def is_bad_request(response: httpx2.Response) -> bool:
    """Whether a server says that the request itself is wrong."""
    return response.status_code in (_BAD_REQUEST, _UNPROCESSABLE)


def parse_answer(question: ChatRequest, said: dict[str, Any], seconds: float) -> Answer:
    """The answer in a server's response, which came after so many seconds."""
    question.timings["generate"] = seconds
    usage = Usage(prompt_tokens=said["usage"]["prompt_tokens"], completion_tokens=said["usage"]["completion_tokens"])
    choice = said["choices"][0]
    if choice["finish_reason"] == "content_filter":
        raise Failure("Blocked", "A filter of the server held the answer back.", "Change the prompt, or the file.")
    question.journal.note(
        f"answer: {usage.completion_tokens:,} tokens in {seconds:.2f} s after {usage.prompt_tokens:,} of the prompt"
    )
    text, reasoning = _parted(choice["message"])
    return Answer(
        text=text,
        reasoning=reasoning,
        finish_reason="length" if choice["finish_reason"] == "length" else "stop",
        usage=usage,
        timings={phase: round(value, 3) for phase, value in question.timings.items()},
        logs=question.journal.lines,
        notes=question.notes,
    )


def _parted(message: dict[str, Any]) -> tuple[str, str | None]:
    """Answer and reasoning; a server with a parser of its own has parted them already."""
    text, reasoning = split_reasoning(message.get("content") or "")
    return text, reasoning or message.get("reasoning") or message.get("reasoning_content")
