"""The names of the CloudWatch metrics, and log lines in the embedded metric format. Dashboard and alarms use them."""

import time
from collections.abc import Mapping
from typing import Any

NAMESPACE = "CosmosBatch"

# Dimensions.
PIPELINE, CODE, PHASE = "pipeline", "code", "phase"

# Emitted by `scale` in each run, at least once a minute: an alarm fires when they are absent.
BACKLOG = "Backlog"
LIVE_WORKERS = "LiveWorkers"
RUNNING_WORKERS = "RunningWorkers"
WANTED_WORKERS = "WantedWorkers"
BREAKER_OPEN = "BreakerOpen"
STUCK_WORKERS = "StuckWorkers"

# Emitted by `report`, once for each job. FAILED has the pipeline as its dimension, and again with the error code.
SUCCEEDED = "Succeeded"
FAILED = "Failed"
# Seconds, for each phase by its name in the document's `timings`.
PHASE_SECONDS = "PhaseSeconds"
PHASES = ("total", "prepare", "decode", "generate", "infer")

# Emitted by a worker once: seconds of each phase of its start. From SubmitJob to its process (host), its imports and
# connections (boot), the weights (model), compiled kernels of other workers (caches), and the engine's load as a whole
# (engine) and by its phases, if the engine reports them.
START_SECONDS = "StartSeconds"
START_PHASES = ("host", "boot", "model", "caches", "engine")
ENGINE_START_PHASES = ("imports", "weights", "compile", "graphs", "warmup", "rest")

# Emitted by `dead_letter`, which empties its queue, so that the depth of the queue does not show these messages.
DEAD_LETTERS = "DeadLetters"

# Emitted by a worker at a heartbeat: a task token of another account or region, which it cannot answer.
FOREIGN_TOKENS = "ForeignTokens"

# The dimension of requests that were refused before their pipeline was known.
UNKNOWN = "unknown"


def embedded(pipeline: str, values: Mapping[str, float], unit: str = "Count", **dimensions: str) -> dict[str, Any]:
    """Return the fields of a log line that CloudWatch reads as metrics (embedded metric format).

    Metrics with further `dimensions` are separate from those of the whole pipeline.
    """
    directive = {
        "Namespace": NAMESPACE,
        "Dimensions": [[PIPELINE, *dimensions]],
        "Metrics": [{"Name": name, "Unit": unit} for name in values],
    }
    metadata = {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [directive]}
    return {"_aws": metadata, PIPELINE: pipeline, **dimensions, **values}
