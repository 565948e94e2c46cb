"""The plan of GPUs fits the GPUs of the worker's machine."""

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.serving import ParallelPlan, Serving
from cosmos_batch.engines.gpus import LocalGpu
from cosmos_batch.worker import gpu_allocation
from cosmos_batch.worker.gpu_allocation import allocate_gpus
from tests.support.scripted_generator import ScriptedGenerator
from tests.worker.conftest import WorkerFixture

PLANS = {"L40S": ParallelPlan(tp=2), "H100": ParallelPlan(cfg=2)}
SERVING = Serving(engine="vllm-omni", guardrails=True, max_resolution="720p", plans=PLANS)
L40S, H100 = LocalGpu("NVIDIA L40S", 45.0), LocalGpu("NVIDIA H100 80GB HBM3", 79.6)
A100, RTX = LocalGpu("NVIDIA A100-SXM4-80GB", 80.0), LocalGpu("NVIDIA GeForce RTX 4090", 24.0)


class Sharing(ScriptedGenerator):
    plan = ParallelPlan()


def shared(bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch, gpus: int, gpu: LocalGpu | None, engine: str) -> str:
    monkeypatch.setattr(gpu_allocation, "gpus_here", lambda: gpus)
    monkeypatch.setattr(gpu_allocation, "gpu_here", lambda: gpu)
    serving = SERVING.model_copy(update={"engine": engine})
    taker = Sharing()
    environment = bench.environment("worker-1").model_copy(update={"pipeline": "cosmos3-nano", "serving": serving})
    allocate_gpus(environment, taker)
    return str(taker.plan)


@pytest.mark.parametrize(
    ("gpus", "gpu", "plan"),
    [
        (2, H100, "cfg 2"),
        (2, L40S, "tp 2"),
        (0, None, "one GPU"),
        (1, A100, "one GPU"),  # not the L40S's: nothing is offloaded
        (1, RTX, "one GPU, offload"),
        (2, A100, "cfg 2"),
    ],
)
def test_the_plan_is_the_deployed_plan_or_fits_the_memory_of_another_gpu(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch, gpus: int, gpu: LocalGpu | None, plan: str
) -> None:
    assert shared(bench, monkeypatch, gpus, gpu, "vllm-omni") == plan


@pytest.mark.parametrize(
    ("gpus", "gpu", "engine", "message"),
    [
        (1, L40S, "vllm-omni", r"for L40S \(tp 2\) uses 2 GPUs, and this worker has 1"),
        (4, H100, "vllm-omni", r"for H100 \(cfg 2\) uses 2 GPUs, and this worker has 4"),
        (2, None, "vllm-omni", "This worker has 2 GPUs, and nvidia-smi does not name them"),
        (2, A100, "diffusers", "cannot share 2 x NVIDIA A100-SXM4-80GB: diffusers"),
    ],
)
def test_gpus_that_fit_no_plan_are_refused(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch, gpus: int, gpu: LocalGpu | None, engine: str, message: str
) -> None:
    with pytest.raises(Failure, match=message) as raised:
        shared(bench, monkeypatch, gpus, gpu, engine)
    assert raised.value.error.code == "EngineFailed" and raised.value.error.remedy
