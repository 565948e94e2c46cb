"""How long the start of a worker took, phase by phase: in its log, and as metrics."""

import logging
from collections.abc import Mapping
from datetime import datetime

from cosmos_batch.contract.metrics import ENGINE_START_PHASES, PHASE, START_PHASES, START_SECONDS, embedded
from cosmos_batch.engines.protocol import CompilingEngine
from cosmos_batch.state.workers import WorkerRow
from cosmos_batch.worker.resident_model import ResidentModel

log = logging.getLogger(__name__)


def tell_start(row: WorkerRow, boot_seconds: float, model: ResidentModel, pipeline: str) -> None:
    """Say it, in one line for a person and one for each metric."""
    engine: Mapping[str, float] = model.engine.startup_seconds if isinstance(model.engine, CompilingEngine) else {}
    seconds = {**_before(row, boot_seconds), **model.load_seconds, **engine}
    told = ", ".join(f"{phase} {value:.1f} s" for phase, value in seconds.items())
    log.info("ready to serve: %s", told)
    for phase in (*START_PHASES, *ENGINE_START_PHASES):
        if phase in seconds:
            fields = embedded(pipeline, {START_SECONDS: seconds[phase]}, "Seconds", **{PHASE: phase})
            log.info("start: %s took %.1f s", phase, seconds[phase], extra=fields)


def _before(row: WorkerRow, boot_seconds: float) -> dict[str, float]:
    """What was before the engine: the wait for a host and the image, and our own start on it."""
    boot = {"boot": round(boot_seconds, 2)}
    if row.submitted_at is None or "started" not in row.stages:
        return boot
    since = datetime.fromisoformat(row.stages["started"]) - datetime.fromisoformat(row.submitted_at)
    return {"host": max(0.0, round(since.total_seconds() - boot_seconds, 2)), **boot}
