"""Export a run as an output file of OpenAI's Batch API, which its client libraries read.

https://platform.openai.com/docs/guides/batch: each line has `custom_id` and either `response` or `error`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.runs import ResultLine


def write(run: StoredRun, lines: Iterator[ResultLine], path: Path) -> list[str]:
    """Write each reasoner's answer as a chat completion, and each error. Generated files have no place in it."""
    summary = run.summary()
    created = int(summary.ended_at.timestamp()) if summary else 0
    left_out = 0
    with path.open("w", encoding="utf-8") as file:
        for line in lines:
            if line.error is None and line.answer is None:
                left_out += 1
                continue
            file.write(json.dumps(_result(line, created), ensure_ascii=False) + "\n")
    return [f"{counted(left_out, 'generation')} left out: the format holds answers in words."] if left_out else []


def _result(line: ResultLine, created: int) -> dict[str, Any]:
    error = line.error and {"code": line.error.code, "message": f"{line.error.message} {line.error.remedy}".strip()}
    response = {"status_code": 200, "request_id": line.job_id, "body": _completion(line, created)}
    return {
        "id": f"batch_req_{line.job_id}",
        "custom_id": line.id,
        "response": None if error else response,
        "error": error,
    }


def _completion(line: ResultLine, created: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": line.answer}
    if line.reasoning:
        message["reasoning_content"] = line.reasoning  # as vLLM and others name it
    completion: dict[str, Any] = {
        "id": line.job_id,
        "object": "chat.completion",
        "created": created,
        "model": line.model or line.pipeline,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }
    if line.usage is not None:
        prompt, answer = line.usage.prompt_tokens, line.usage.completion_tokens
        completion["usage"] = {
            "prompt_tokens": prompt,
            "completion_tokens": answer,
            "total_tokens": prompt + answer,
        }
    return completion
