"""Read a line of the OpenAI batch format as a line of a manifest.

`{"custom_id": "1", "body": {"messages": [{"role": "user", "content": [{"type": "video_url", "video_url": {"url":
"s3://my-bucket/clip.mp4"}}, {"type": "text", "text": "What happens?"}]}], "max_tokens": 256}}`

`method`, `url` and `body.model` are accepted and ignored: the run's pipeline answers. Media are in S3, or at https
addresses of hosts that the configuration allows.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from cosmos_batch.planning.runs.line_problems import FieldProblem, WrongLine

# Fields of the body, by the parameter that each sets.
_PARAMETERS = {
    "max_tokens": "maxTokens",
    "max_completion_tokens": "maxTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "repetition_penalty": "repetitionPenalty",
}
_IGNORED = ("model", "n", "stream", "user", "metadata")
_LINE = ("custom_id", "method", "url", "body")
_MEDIA = ("video_url", "image_url")


def is_openai_line(fields: Mapping[str, Any]) -> bool:
    """Return whether a line is of this format."""
    return "custom_id" in fields or "body" in fields


def translated(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the line as the fields of a manifest's line. Raises WrongLine, with everything that is wrong."""
    problems = [FieldProblem.unknown(name, _LINE) for name in fields if name not in _LINE]
    body = fields.get("body")
    if not isinstance(fields.get("custom_id"), str):
        problems.append(FieldProblem("custom_id", "is missing or is not text.", "Give each line an id of its own."))
    if not isinstance(body, dict):
        problems.append(
            FieldProblem("body", "is missing or is not an object.", "Write the request of a chat completion there.")
        )
        raise WrongLine(problems)
    line: dict[str, Any] = {"id": fields.get("custom_id"), "parameters": {}}
    problems += _read_body(body, line)
    problems += _read_messages(body.get("messages"), line)
    if problems:
        raise WrongLine(problems)
    return {name: value for name, value in line.items() if value not in ({}, [])}


def _read_body(body: Mapping[str, Any], line: dict[str, Any]) -> Iterator[FieldProblem]:
    known = ["messages", "response_format", *_PARAMETERS, *_IGNORED]
    for name, value in body.items():
        if name in _PARAMETERS:
            line["parameters"][_PARAMETERS[name]] = value
        elif name == "response_format":
            yield from _read_format(value, line)
        elif name not in known:
            yield FieldProblem.unknown(f"body.{name}", known)
    if body.get("n") not in (None, 1):
        yield FieldProblem("body.n", "asks for several answers.", "Write a line for each, with seeds of their own.")


def _read_format(value: Any, line: dict[str, Any]) -> Iterator[FieldProblem]:
    kind = value.get("type") if isinstance(value, dict) else None
    schema = value.get("json_schema") if isinstance(value, dict) else None
    if kind == "json_schema" and isinstance(schema, dict) and isinstance(schema.get("schema"), dict):
        line["parameters"]["jsonSchema"] = schema["schema"]
    elif kind != "text":
        yield FieldProblem(
            "body.response_format",
            "is neither text nor a JSON Schema.",
            'Write {"type": "json_schema", "json_schema": {"schema": {...}}}.',
        )


def _read_messages(messages: Any, line: dict[str, Any]) -> Iterator[FieldProblem]:
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        yield FieldProblem(
            "body.messages", "is missing or is not a list of messages.", "Write one message of the user."
        )
        return
    roles = [message.get("role") for message in messages]
    if roles not in (["user"], ["system", "user"]):
        yield FieldProblem(
            "body.messages",
            f"has the roles {', '.join(map(str, roles)) or '(none)'}.",
            "Write one message of the user, after one of the system or none: a conversation is not supported.",
        )
        return
    if len(messages) > 1:
        line["systemPrompt"] = messages[0].get("content")
    yield from _read_content(messages[-1].get("content"), line)


def _read_content(content: Any, line: dict[str, Any]) -> Iterator[FieldProblem]:
    """Read the parts of the user's message: texts, which become the prompt, and media."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        yield FieldProblem(
            "body.messages.content", "is neither text nor a list of parts.", "Write text, or a list of parts."
        )
        return
    texts: list[str] = []
    inputs: list[str] = []
    for number, part in enumerate(parts):
        field = f"body.messages.content.{number}"
        kind = part.get("type")
        value = part.get("text") if kind == "text" else part.get(str(kind))
        if kind in _MEDIA and isinstance(value, dict):
            value = value.get("url")
        if kind == "text" and isinstance(value, str):
            texts.append(value)
        elif kind in _MEDIA and isinstance(value, str):
            inputs.append(value)
        else:
            yield FieldProblem(field, "is neither text nor a video or image.", f"Use text, {' or '.join(_MEDIA)}.")
    line["inputs"] = inputs
    if texts:
        line["prompt"] = "\n".join(texts)
