"""The cost of a generation in GPU-seconds, and in dollars where the instance type is known."""

from collections.abc import Iterator

import pytest

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.contract.generation.serving import ParallelPlan, Serving
from cosmos_batch.worker import costs, instance_metadata
from cosmos_batch.worker.costs import GenerationCost, cost_of
from cosmos_batch.worker.instance_metadata import InstanceTypeReader
from tests.support.metadata_service import MetadataService, metadata_service
from tests.worker.conftest import WorkerFixture

SERVING = Serving(engine="my.module:Engine", guardrails=True, max_resolution="720p", plans={"L40S": ParallelPlan(tp=2)})


@pytest.fixture(autouse=True)
def _two_gpus_of_an_unknown_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "gpus_here", lambda: 2)
    monkeypatch.setattr(instance_metadata, "_this_host", InstanceTypeReader())


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[MetadataService]:
    with metadata_service() as running:
        for name, value in running.variables.items():
            monkeypatch.setenv(name, value)
        yield running


def cost(bench: WorkerFixture, serving: Serving = SERVING) -> GenerationCost:
    return cost_of(bench.environment("worker-1").model_copy(update={"serving": serving}), 90.0)


def test_two_of_four_gpus_cost_half_of_their_host(bench: WorkerFixture, service: MetadataService) -> None:
    hourly = INSTANCE_TYPES["g6e.12xlarge"].dollars_per_hour
    assert cost(bench) == GenerationCost(2, 180.0, "g6e.12xlarge", pytest.approx(90 / 3600 * hourly / 2, abs=1e-6))


def test_a_host_that_the_catalogue_lacks_has_no_price(bench: WorkerFixture, service: MetadataService) -> None:
    service.instance_type = "t3.large"
    assert cost(bench) == GenerationCost(2, 180.0, "t3.large", None)


def test_outside_of_ec2_there_is_no_price(bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert cost(bench) == GenerationCost(2, 180.0, None, None)


def test_the_cost_of_an_engine_that_shares_gpus_by_itself_is_unknown(
    bench: WorkerFixture, service: MetadataService
) -> None:
    assert cost(bench, SERVING.model_copy(update={"plans": {}})) == GenerationCost(None, None, "g6e.12xlarge", None)


def test_a_machine_without_gpus_has_no_cost(
    bench: WorkerFixture, service: MetadataService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "gpus_here", lambda: 0)
    assert cost(bench) == GenerationCost(None, None, "g6e.12xlarge", None)
