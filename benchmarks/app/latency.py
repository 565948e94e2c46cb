"""Benchmark of the time that one file takes on the local cloud, from PutObject to SUCCEEDED, without inference."""

import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.measurement import Measurement
from cosmos_batch.demo.media import sample_clip
from tests.support.deployed_app import TWO_B, App, configuration, running_app, wait_for

RUNS = 10
LIMIT_SECONDS = 2.5


def measure() -> Measurement:
    """Return the median of `RUNS` files, one after the other, after two that warm everything up."""
    with tempfile.TemporaryDirectory() as folder:
        clip = sample_clip(Path(folder) / "clip.mp4").read_bytes()
        config = configuration(Path(folder), worker={"idleSeconds": 300})
        with running_app(Path(folder), config) as app:
            seconds = [_one(app, f"bench/{n}.mp4", clip) for n in range(RUNS + 2)][2:]
    median = statistics.median(seconds)
    return Measurement(
        name="PutObject to SUCCEEDED, no inference",
        value=f"{median:.2f} s (median of {RUNS}; {min(seconds):.2f} to {max(seconds):.2f})",
        limit=f"at most {LIMIT_SECONDS} s",
        met=median <= LIMIT_SECONDS,
        raw={"seconds": seconds},
    )


def _one(app: App, key: str, clip: bytes) -> float:
    from cosmos_batch.planning.executions import execution_name

    began = time.monotonic()
    version = app.upload(key, clip, prompt="What happens?")
    name = execution_name(TWO_B, app.assets, key, version)
    arn = app.machine.replace(":stateMachine:", ":execution:") + f":{name}"
    stepfunctions = app.client("stepfunctions")

    def succeeded() -> bool:
        try:
            return bool(stepfunctions.describe_execution(executionArn=arn)["status"] == "SUCCEEDED")
        except stepfunctions.exceptions.ExecutionDoesNotExist:
            return False

    wait_for(succeeded, 120, f"{key} did not succeed")
    return time.monotonic() - began
