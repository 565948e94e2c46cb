"""An engine that counts its jobs, and a function that waits for a condition."""

import asyncio
from pathlib import Path
from typing import Any

from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer
from tests.support.scripted_engine import ScriptedEngine

PATIENCE = 120  # seconds until a test fails that waits for what never comes; a busy machine takes less


async def until(condition: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


class Counting(ScriptedEngine):
    """Counts how many jobs are in it now (`inside`) and at most (`most`), and how many it has begun (`runs`)."""

    inside = most = runs = 0

    async def run(self, job: Job, workdir: Path) -> Answer:
        self.inside += 1
        self.runs += 1
        self.most = max(self.most, self.inside)
        try:
            return await super().run(job, workdir)
        finally:
            self.inside -= 1
