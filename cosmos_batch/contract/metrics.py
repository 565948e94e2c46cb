"""The metrics that we emit as log lines; the dashboard and the alarms are made of them."""

import time
from collections.abc import Mapping
from typing import Any

NAMESPACE = "CosmosBatch"

# Dimensions.
PIPELINE, CODE, PHASE = "pipeline", "code", "phase"

# Of `scale`, at every look; one a minute at least, so their absence means that it is dead.
BACKLOG = "Backlog"
LIVE_WORKERS = "LiveWorkers"
RUNNING_WORKERS = "RunningWorkers"
WANTED_WORKERS = "WantedWorkers"
BREAKER_OPEN = "BreakerOpen"
STUCK_WORKERS = "StuckWorkers"

# Of `report`, once for each job. FAILED stands there for the pipeline, and for each code of it too.
SUCCEEDED = "Succeeded"
FAILED = "Failed"
# Seconds, for each phase by its name in the document's `timings`.
PHASE_SECONDS = "PhaseSeconds"
PHASES = ("total", "prepare", "decode", "generate", "infer")

# Of a worker, once: seconds of each phase of its start. From SubmitJob to its process, its own imports and connections,
# the weights (found, restored or downloaded), what others compiled, and the engine's load, as a whole and, where the
# engine tells them, by its phases.
START_SECONDS = "StartSeconds"
START_PHASES = ("host", "boot", "model", "caches", "engine")
ENGINE_START_PHASES = ("imports", "weights", "compile", "graphs", "warmup", "rest")

# Of `dead_letter`, which empties its queue: the queue's depth never shows them.
DEAD_LETTERS = "DeadLetters"

# Of a worker, at a heartbeat: nobody here can answer such a task token.
FOREIGN_TOKENS = "ForeignTokens"

# The pipeline of what was refused before it had one.
UNKNOWN = "unknown"


def embedded(pipeline: str, values: Mapping[str, float], unit: str = "Count", **dimensions: str) -> dict[str, Any]:
    """A log line's fields that CloudWatch takes as metrics: its embedded metric format needs no call and no right.

    With more `dimensions` they are kept for these alone, beside those of the whole pipeline.
    """
    directive = {
        "Namespace": NAMESPACE,
        "Dimensions": [[PIPELINE, *dimensions]],
        "Metrics": [{"Name": name, "Unit": unit} for name in values],
    }
    told = {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [directive]}
    return {"_aws": told, PIPELINE: pipeline, **dimensions, **values}
