"""Folders with documents and their media, for tests of the console."""

import json
from pathlib import Path
from typing import Any

_ANSWER: dict[str, Any] = {
    "model": "nvidia/Cosmos-Reason2-2B",
    "modelSize": "2B",
    "inputFile": "clip.mp4",
    "timestamp": "20261120-120000",
    "systemPrompt": "",
    "userPrompt": "What happens, and when?",
    "result": "A red circle moves.",
    "jobLogs": "",
    "jobId": "job",
    "pipeline": "cosmos-reason2-2b",
    "revision": "0" * 40,
    "engine": "vllm 0.32.0",
    "finishReason": "stop",
    "usage": {"promptTokens": 10, "completionTokens": 20},
    "timings": {"decode": 0.31, "generate": 4.2},
    "parameters": {},
    "inputVersionId": None,
    "batchJobId": "worker",
}


def write_answer(path: Path, **fields: Any) -> Path:
    """Write a reasoner's document with these fields, by their names in JSON, among usual ones."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**_ANSWER, **fields}), encoding="utf-8")
    return path


def write_generation(path: Path, files: list[str], **fields: Any) -> Path:
    """Write a generator's document about these video files."""
    document = {
        "model": "nvidia/Cosmos3-Nano",
        "pipeline": "cosmos3-nano",
        "timestamp": "20261121-120000",
        "generation": {"mode": "t2v", "prompt": "A robot pours water."},
        "files": [{"file": name, "role": "video", "size": 1} for name in files],
        "input": None,
        "moreInputs": [],
        "timings": {"denoise": 30.0},
    }
    path.write_text(json.dumps({**document, **fields}), encoding="utf-8")
    return path


def write_failure(
    path: Path, code: str, message: str, file: str = "clip.mp4", timestamp: str = "20261122-120000"
) -> Path:
    """Write the document of a failed job."""
    error = {"code": code, "message": message, "remedy": "Export the file again.", "retryable": False}
    document = {
        "error": error,
        "inputFile": f"s3://bucket/{file}",
        "inputVersionId": None,
        "pipeline": "cosmos-reason2-2b",
        "jobId": "job",
        "timestamp": timestamp,
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
