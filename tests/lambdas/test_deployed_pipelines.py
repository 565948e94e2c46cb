"""The functions read the deployed pipelines from SSM parameters."""

from collections.abc import Callable
from typing import Any

import pytest

from cosmos_batch.contract.environment import DeployedCompute, DeployedQueue, PlanEnvironment, ScaleEnvironment
from lambdas.deployed_pipelines import NAMES_AT_ONCE, read_pipelines
from lambdas.handlers import plan, scale
from lambdas.planning.plan import enabled_queue
from tests.lambdas.cloud import DEFINITION, IDENTITY, JOB_QUEUE, LARGE, SMALL, Cloud


def compute(job_definition: str = DEFINITION) -> DeployedCompute:
    return DeployedCompute(
        id=SMALL,
        queue_url="q",
        job_queue=JOB_QUEUE,
        job_definition=job_definition,
        max_workers=4,
        vcpus=12,
        max_life_hours=24,
    )


def deploy(cloud: Cloud, number: int) -> str:
    return cloud.deploy_pipeline(DeployedQueue(id=f"p{number}", queue_url="q", identity=IDENTITY), compute())


def test_they_are_read_in_the_order_of_the_names_however_many_there_are(cloud: Cloud) -> None:
    """`plan` names the smallest model first, and AWS returns ten parameters in any order."""
    names = [deploy(cloud, number) for number in reversed(range(2 * NAMES_AT_ONCE + 1))]
    assert [f"CFN-{pipeline.queue.id}" for pipeline in read_pipelines(names)] == names


def test_a_parameter_that_is_not_there_is_named(cloud: Cloud) -> None:
    there = deploy(cloud, 1)
    with pytest.raises(RuntimeError, match="CFN-gone do not exist"):
        read_pipelines([there, "CFN-gone"])


def test_scale_knows_a_new_job_definition_as_soon_as_it_is_deployed(
    cloud: Cloud, configure: Callable[..., None]
) -> None:
    """The function's process is older than the deployment, and its variables do not change with the revision."""
    configure(ScaleEnvironment)
    assert [pipeline.job_definition for pipeline in scale.deployed_pipelines()] == [DEFINITION]
    queue = DeployedQueue(id=SMALL, queue_url="q", identity=IDENTITY)
    cloud.deploy_pipeline(queue, compute(job_definition="reason2B:2"))
    assert [pipeline.job_definition for pipeline in scale.deployed_pipelines()] == ["reason2B:2"]


def test_plan_reads_them_once_for_a_burst_of_files(
    cloud: Cloud, configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parameter Store accepts 40 calls a second, and 200 files are planned within one second."""
    calls: list[Any] = []
    real = cloud.ssm
    monkeypatch.setattr(cloud, "ssm", Counting(real, calls))
    configure(PlanEnvironment)
    assert [enabled_queue(SMALL, plan.enabled_queues()).id for _ in range(200)] == [SMALL] * 200
    assert len(calls) == 1
    with pytest.raises(Exception, match=f"{LARGE}.*is not enabled"):
        enabled_queue(LARGE, plan.enabled_queues())


class Counting:
    """A client of SSM that records the calls of `get_parameters`."""

    def __init__(self, real: Any, calls: list[Any]) -> None:
        self._real = real
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def get_parameters(self, **call: Any) -> Any:
        self._calls.append(call)
        return self._real.get_parameters(**call)
