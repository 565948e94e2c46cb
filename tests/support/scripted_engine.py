"""An engine without a model that does what the prompt says, such as to answer late, to fail or to crash.

A prompt that is a JSON object is a script; any other prompt is repeated as its answer.

| key | effect |
|---|---|
| `seconds` | how long the answer takes |
| `until` | the answer waits for a file with this path |
| `text` | the answer |
| `raise` | the engine raises RuntimeError with this text |
| `die` | the engine's process is killed while it works on the job |
| `killAt` | the worker's inner process is killed when the job reaches this stage |
| `group` | with `die` or `killAt`: the whole worker is killed, its supervisor too, as by the loss of a host |
| `once` | path of a file that is made before the fault: with it there, the fault does not happen again |

A file `cannot-load` in the model's folder makes `load` end the process, one called `refuses` makes it raise Failure.
While one called `loads` is there, `load` goes on.
"""

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer, Usage
from cosmos_batch.state.job_rows import Stage
from cosmos_batch.worker.job_attempt import stage_observers


class ScriptedEngine:
    """An engine that follows the script in a prompt; the module's docstring lists the keys."""

    name = "scripted 1"
    concurrency = 20

    def __init__(self) -> None:
        self.startup_logs = ["scripted engine is ready"]

    def load(self, model_dir: Path, context: int | None = None) -> None:
        if (model_dir / "cannot-load").exists():
            os._exit(3)
        if (model_dir / "refuses").exists():
            raise Failure("ModelUnavailable", "The licence of this model was not accepted.", "Accept the licence.")
        while (model_dir / "loads").exists():
            time.sleep(0.05)
        if _kill_at not in stage_observers:
            stage_observers.append(_kill_at)

    async def run(self, job: Job, workdir: Path) -> Answer:
        assert list(workdir.iterdir()), "the input lies in the working directory"
        script = _script(job.prompt)
        await asyncio.sleep(script.get("seconds", 0))
        while "until" in script and not Path(script["until"]).exists():
            await asyncio.sleep(0.1)
        if script.get("die"):
            _die(script)
        if "raise" in script:
            raise RuntimeError(script["raise"])
        text = script.get("text", job.prompt or "")
        return Answer(
            text=text,
            finish_reason="stop",
            usage=Usage(prompt_tokens=1, completion_tokens=1),
            timings={"generate": 0.0},
            logs=[f"answered {job.job_id}"],
        )

    def close(self) -> None:
        """Do nothing: there is no model to free."""


class SlowOneAtATime(ScriptedEngine):
    """A scripted engine that takes one job at a time."""

    concurrency = 1


def _script(prompt: str | None) -> dict[str, Any]:
    try:
        script = json.loads(prompt or "")
    except ValueError:
        return {}
    return script if isinstance(script, dict) else {}


def _kill_at(stage: Stage, job: Job) -> None:
    script = _script(job.prompt)
    if script.get("killAt") == stage:
        _die(script)


def _die(script: dict[str, Any]) -> None:
    marker = Path(script["once"]) if "once" in script else None
    if marker is not None and marker.exists():
        return
    if marker is not None:
        marker.touch()
    if script.get("group"):
        os.killpg(os.getpgid(0), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
