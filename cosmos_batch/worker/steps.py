"""How far a long job is, noted in its row for whoever follows it."""

import asyncio
import logging

from botocore.exceptions import BotoCoreError, ClientError

from cosmos_batch.engines.protocol import Engine, StepReportingEngine
from cosmos_batch.state import Jobs

PERIOD_SECONDS = 2.0

log = logging.getLogger(__name__)


async def tell_steps(engine: Engine, jobs: Jobs, job_id: str, attempt_id: str) -> None:
    """Note each step that is seen, until cancelled. What AWS does not take is noted with the next."""
    noted = None
    while isinstance(engine, StepReportingEngine):
        await asyncio.sleep(PERIOD_SECONDS)
        steps = engine.steps(job_id)
        if steps is None or steps == noted:
            continue
        try:
            await asyncio.to_thread(jobs.note_steps, job_id, attempt_id, *steps)
            noted = steps
        except (BotoCoreError, ClientError):
            log.warning("steps were not noted", exc_info=True, extra={"jobId": job_id})
