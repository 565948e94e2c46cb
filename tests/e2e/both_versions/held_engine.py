"""An engine for workers of two versions of this project: it holds each job until a file says that it may go on.

Both versions find this module beside theirs, so it uses only what both have.
"""

import asyncio
from pathlib import Path
from typing import Any

from cosmos_batch.contract.result import Answer, Usage


class HeldEngine:
    """An engine whose job, if its prompt is an absolute path, ends when there is a file with that path."""

    name = "held 1"
    concurrency = 2

    def __init__(self) -> None:
        self.startup_logs = ["held engine is ready"]

    def load(self, model_dir: Path, context: int | None = None) -> None:
        if not (model_dir / "config.json").exists():
            raise RuntimeError("the model is not there")

    async def run(self, job: Any, workdir: Path) -> Answer:
        while job.prompt.startswith("/") and not Path(job.prompt).exists():
            await asyncio.sleep(0.1)
        return Answer(
            text=f"answer to {job.job_id}",
            finish_reason="stop",
            usage=Usage(prompt_tokens=1, completion_tokens=1),
            timings={},
            logs=[],
        )

    def close(self) -> None:
        """Do nothing."""
