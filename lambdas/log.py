"""Log lines: one JSON object each, with ids and no token, prompt or document."""

import json
import time
import traceback
from collections.abc import Mapping

NAMESPACE = "CosmosBatch"


def log(message: str, **fields: object) -> None:
    """Say what happened, and to what."""
    print(json.dumps({"message": message, **fields}, default=str), flush=True)


def log_fault(message: str, error: Exception, **fields: object) -> None:
    """Say what went wrong and where. The exception's text stays out: it may quote a prompt or a token."""
    code = getattr(error, "response", {}).get("Error", {}).get("Code")
    frames = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    log(message, level="ERROR", error=type(error).__name__, code=code, frames=frames, **fields)


def measure(pipeline: str, values: Mapping[str, float]) -> None:
    """Metrics of a pipeline, in CloudWatch's embedded metric format: a log line that needs no call and no right."""
    directive = {
        "Namespace": NAMESPACE,
        "Dimensions": [["pipeline"]],
        "Metrics": [{"Name": name, "Unit": "Count"} for name in values],
    }
    embedded = {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [directive]}
    print(json.dumps({"_aws": embedded, "pipeline": pipeline, **values}), flush=True)
