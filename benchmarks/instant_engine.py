"""An engine that answers at once, and that notes when it began with which job."""

import os
import time
from pathlib import Path

from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer
from tests.support.scripted_engine import ScriptedEngine

INFERENCES = "inferences.log"


class InstantEngine(ScriptedEngine):
    """Answers each job with its prompt. A line in the model's folder says when an inference began, in seconds."""

    def load(self, model_dir: Path, context: int | None = None) -> None:
        super().load(model_dir, context)
        self._log = os.open(model_dir / INFERENCES, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def run(self, job: Job, workdir: Path) -> Answer:
        os.write(self._log, f"{time.time():.3f} {job.job_id}\n".encode())
        return await super().run(job, workdir)
