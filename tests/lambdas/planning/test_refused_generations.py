"""`plan` refuses each bad input that the generator's issue lists, before a queue, a worker or a GPU is used.

What only a worker can see (a PDF called .png, a control video of another length, actions in a file) is refused in
`tests/e2e/test_generator_modes.py`, what an engine does wrong in `tests/worker/test_generations.py`.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from cosmos_batch.contract.environment import DeployedQueue, PlanEnvironment
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.generation.serving import Serving
from cosmos_batch.state import Jobs
from lambdas.handlers.plan import enabled_queues, handler
from tests.lambdas.cloud import IDENTITY, Cloud

NANO, TO_IMAGE = "cosmos3-nano", "cosmos3-super-text2image"
SERVING = Serving(engine="diffusers", guardrails=True, max_resolution="720p", plans={})
ROW = [0.0] * 9
DRIVE = {"mode": "forward_dynamics", "domainName": "av", "actionChunkSize": 4}


@pytest.fixture(autouse=True)
def _environment(configure: Callable[..., None], cloud: Cloud) -> None:
    configure(PlanEnvironment, generator=SERVING)
    to_image = DeployedQueue(id=TO_IMAGE, queue_url=cloud.jobs_queue, identity=IDENTITY, serving=SERVING)
    enabled_queues()[TO_IMAGE] = to_image
    for key in ("car.png", "car.mp4", "car.pdf"):
        cloud.put(key)


def refused(cloud: Cloud, request: dict[str, Any]) -> Error:
    """Plan a request and return the error with which it is refused, having checked that nothing is left behind."""
    execution = {"id": "arn:execution:bad", "name": "bad", "startTime": datetime.now(UTC).isoformat()}
    content = {"pipeline": NANO, "prompt": "A car.", "output": "s3://assets/out/", **request}
    with pytest.raises(Failure) as failure:
        handler({"request": content, "execution": execution}, None)
    assert Jobs(cloud.table).get("bad") is None and cloud.messages(cloud.jobs_queue) == []
    return failure.value.error


def said(**parameters: Any) -> dict[str, Any]:
    return {"parameters": parameters}


def driven(action: Any) -> dict[str, Any]:
    return {"input": "s3://assets/car.png", "parameters": {**DRIVE, "action": action}}


@pytest.mark.parametrize(
    ("request_", "message", "remedy"),
    [
        pytest.param(said(numFrames=0), "numFrames: 0 is not possible", "Use 5 to 197", id="0 frames"),
        pytest.param(said(numFrames=10_000), "numFrames: 10,000", "Use 5 to 197", id="10,000 frames"),
        pytest.param(said(width=61, height=61), "61x61 are not multiples of 16", "Use 64x64", id="61x61"),
        pytest.param(said(aspectRatio="16:7"), "aspectRatio: '16:7'", "", id="16:7"),
        pytest.param(said(fps=0), "fps: 0: Input should be greater than 0", "", id="fps 0"),
        pytest.param(said(steps=0), "steps: 0: Input should be greater than or equal to 1", "", id="steps 0"),
        pytest.param(
            said(steps=10_000), "steps: 10000: Input should be less than or equal to 200", "", id="steps 10,000"
        ),
        pytest.param(said(guidanceScale=-1), "guidanceScale: -1: Input should be greater", "", id="guidance -1"),
        pytest.param(said(seed=2**70), "Input should be less than 4294967296", "", id="seed 2^70"),
        pytest.param({"prompt": "x" * 100_000}, "prompt: 100,000 bytes", "32,768 bytes", id="a prompt of 100 KB"),
        pytest.param(driven([ROW[:8]] * 4), "row 0 has 8 numbers", "each of 9 finite numbers", id="wrong width"),
        pytest.param(
            driven([ROW, [*ROW[:8], "NaN"], ROW, ROW]), "row 1 contains NaN", "finite numbers", id="NaN, written"
        ),
        pytest.param(driven([[*ROW[:8], float("nan")]] * 4), "row 0 contains", "finite numbers", id="NaN"),
        pytest.param(driven([ROW] * 5), "5 rows, and actionChunkSize is 4", "send 4 rows", id="too many actions"),
        pytest.param(
            {"input": "s3://assets/car.pdf"}, ".pdf of s3://assets/car.pdf is not supported", ".png", id="PDF"
        ),
        pytest.param(said(mode="t2i", sound=True), "sound: mode t2i has none", "t2v, i2v, v2v", id="sound of an image"),
        pytest.param(
            {"input": "s3://assets/car.mp4", **said(mode="transfer", edge=True, sound=True)},
            "sound: mode transfer has none",
            "t2v, i2v, v2v",
            id="sound of transfer",
        ),
        pytest.param(
            {"pipeline": TO_IMAGE, "input": "s3://assets/car.mp4", **said(mode="transfer", edge=True)},
            f"{TO_IMAGE} does not do transfer",
            f"Use {NANO} for it",
            id="transfer on text2image",
        ),
        pytest.param(said(trueCfgScale=4), "use guidanceScale", "", id="true_cfg_scale"),
        pytest.param(
            {"input": "s3://assets/car.mp4", **said(mode="transfer", edge={"weight": 2}, blur=True)},
            "Diffusers, the engine of this pipeline, gives all controls the same weight",
            "Use a pipeline on vLLM-Omni",
            id="weights on Diffusers",
        ),
    ],
)
def test_plan_refuses_each_request_with_a_message_and_a_remedy(
    cloud: Cloud, request_: dict[str, Any], message: str, remedy: str
) -> None:
    error = refused(cloud, request_)
    assert error.code == "InvalidInput" and not error.retryable
    assert message in error.message and error.remedy and remedy in error.remedy
    assert json.loads(error.cause())["code"] == "InvalidInput", "it travels as JSON"


def test_a_distilled_model_is_refused_before_a_worker_loads_it(cloud: Cloud) -> None:
    """An update may deploy `plan` for a configuration that an earlier version's synthesis has accepted."""
    distilled = IDENTITY.model_copy(update={"model": "nvidia/Cosmos3-Super-Text2Image-4Step"})
    for engine in ("cosmos-framework", "my.module:Engine"):
        serving = SERVING.model_copy(update={"engine": engine})
        queue = DeployedQueue(id=TO_IMAGE, queue_url=cloud.jobs_queue, identity=distilled, serving=serving)
        enabled_queues()[TO_IMAGE] = queue
        if engine == "cosmos-framework":
            error = refused(cloud, {"pipeline": TO_IMAGE})
            assert error.code == "ModelUnavailable" and not error.retryable
            assert "is distilled to a few fixed steps, which Cosmos Framework does not run" in error.message
    execution = {"id": "arn:execution:custom", "name": "custom", "startTime": datetime.now(UTC).isoformat()}
    request = {"pipeline": TO_IMAGE, "prompt": "A car.", "output": "s3://assets/out/", "parameters": {"mode": "t2i"}}
    handler({"request": request, "execution": execution}, None)
    assert Jobs(cloud.table).get("custom") is not None, "an engine of one's own may run one"
