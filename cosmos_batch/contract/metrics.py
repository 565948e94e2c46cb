"""The metrics that we emit. Functions write them as log lines; the dashboard and the alarms are made of them."""

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

# Of `dead_letter`, which empties its queue: the queue's depth never shows them.
DEAD_LETTERS = "DeadLetters"
