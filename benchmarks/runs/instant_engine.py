"""An engine that answers at once with a text as long as a model's, and that notes when it began with which job."""

import os
import time
import zlib
from pathlib import Path

from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer
from tests.support.scripted_engine import ScriptedEngine

INFERENCES = "inferences.log"
ANSWER_CHARACTERS = 1000  # as many as about 250 tokens have
_ENGLISH = Path(__file__).parents[2] / "docs" / "operations.md"


class InstantEngine(ScriptedEngine):
    """Answers each job with a passage of English text. A line in the model's folder says when an inference began.

    What a document costs depends on its compressed size, so the text is neither short nor repetitive. The same job is
    always answered by the same passage.
    """

    def load(self, model_dir: Path, context: int | None = None) -> None:
        super().load(model_dir, context)
        self._log = os.open(model_dir / INFERENCES, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._english = _ENGLISH.read_text(encoding="utf-8")

    async def run(self, job: Job, workdir: Path) -> Answer:
        os.write(self._log, f"{time.time():.3f} {job.job_id}\n".encode())
        answer = await super().run(job, workdir)
        return answer.model_copy(update={"text": self._passage(job.job_id)})

    def _passage(self, job_id: str) -> str:
        start = zlib.crc32(job_id.encode()) % (len(self._english) - ANSWER_CHARACTERS)
        return self._english[start : start + ANSWER_CHARACTERS]
