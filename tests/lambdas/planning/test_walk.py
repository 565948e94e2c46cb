"""An upload passes few modules on its way through `plan`, so that a reader can follow it."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import Any

import pytest

from cosmos_batch.contract.environment import PlanEnvironment
from cosmos_batch.contract.generation.serving import ParallelPlan, Serving
from lambdas.handlers.plan import handler
from tests.lambdas.cloud import NANO, SMALL, Cloud

# Where requests are read and decided. Tables, schemas, clients of AWS and the state table are not counted.
ROOMS = ("lambdas.handlers.", "lambdas.planning.", "cosmos_batch.planning.")
MOST_MODULES = 15

METADATA = {"COSMOS3_SEED": "7"}


@contextmanager
def modules_entered() -> Iterator[set[str]]:
    """Collect the modules of these rooms in which a function is called."""
    entered: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith(ROOMS) and frame.f_code.co_name != "<module>":
            entered.add(name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield entered
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize(
    "request_",
    [
        {"pipeline": SMALL, "input": "s3://assets/clip.mp4", "metadata": {"temperature": 0.5}, "prompt": "What?"},
        {"pipeline": NANO, "requestFile": "s3://assets/made.cosmos.json"},
        {"pipeline": NANO, "input": "s3://assets/car.png", "metadata": METADATA, "prompt": "A car."},
    ],
    ids=["question", "request file", "metadata"],
)
def test_an_upload_passes_at_most_fifteen_modules(
    cloud: Cloud, configure: Callable[..., None], request_: dict[str, Any]
) -> None:
    plans = {"H200": ParallelPlan()}
    serving = Serving(engine="vllm-omni", guardrails=True, max_resolution="720p", plans=plans)
    configure(PlanEnvironment, generator=serving)
    cloud.put("clip.mp4")
    cloud.put("car.png")
    cloud.put("made.cosmos.json", json.dumps({"prompt": "A robot.", "mode": "t2v", "resolution": "480p"}).encode())
    started = datetime.now(UTC).isoformat()
    execution = {"id": "arn:execution:job-1", "name": "job-1", "startTime": started}
    with modules_entered() as entered:
        assert handler({"request": request_, "execution": execution}, None)["jobId"] == "job-1"
    assert 8 <= len(entered) <= MOST_MODULES, sorted(entered)
