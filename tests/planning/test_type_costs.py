"""What an item costs on an instance type follows from seconds, GPUs and prices."""

from dataclasses import replace

import pytest

from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.catalogue.pipelines import Pipeline, pipeline_named
from cosmos_batch.planning.pace import first_seconds_per_unit
from cosmos_batch.planning.type_costs import item_cost


def pipeline(name: str) -> Pipeline:
    found = pipeline_named(name)
    assert found is not None
    return found


def test_a_busy_item_pays_for_its_gpus_and_a_single_one_for_the_whole_instance() -> None:
    cost = item_cost(pipeline("cosmos-reason2-2b"), "g6e.12xlarge")
    assert cost is not None and cost.seconds == first_seconds_per_unit("cosmos-reason2-2b", "L40S", 1)
    assert cost.busy_dollars == pytest.approx(cost.seconds * 10.493 / 4 / 3600)
    assert cost.sparse_dollars == pytest.approx((900 + cost.seconds) / 3600 * 10.493)


def test_a_worker_of_two_gpus_pays_for_both() -> None:
    cost = item_cost(pipeline("cosmos3-nano"), "g6e.12xlarge", weight=100)
    assert cost is not None and cost.busy_dollars == pytest.approx(cost.seconds * 2 * 10.493 / 4 / 3600)


@pytest.mark.parametrize(
    ("name", "instance_type"), [("cosmos3-nano", "g6e.2xlarge"), ("cosmos3-super", "g6e.12xlarge")]
)
def test_a_type_on_which_a_worker_does_not_fit_without_offloading_has_no_cost(name: str, instance_type: str) -> None:
    assert item_cost(pipeline(name), instance_type) is None


@pytest.mark.parametrize(
    ("instance_type", "engine"),
    [
        ("g6e.12xlarge", "vllm-omni"),
        ("g7e.2xlarge", "vllm-omni"),
        ("p5.4xlarge", "diffusers"),
        ("p5en.48xlarge", "diffusers"),
        ("p6-b200.48xlarge", "vllm-omni"),
    ],
)
def test_a_generator_is_planned_with_the_engine_that_auto_is_on_the_type(
    monkeypatch: pytest.MonkeyPatch, instance_type: str, engine: str
) -> None:
    """No other engine could carry a job here."""
    for name, abilities in GENERATOR_ABILITIES.items():
        if name != engine:
            monkeypatch.setitem(GENERATOR_ABILITIES, name, replace(abilities, memory_peaks=((0, 500), (1, 500))))
    assert item_cost(pipeline("cosmos3-nano"), instance_type) is not None
    monkeypatch.setitem(
        GENERATOR_ABILITIES, engine, replace(GENERATOR_ABILITIES[engine], memory_peaks=((0, 500), (1, 500)))
    )
    assert item_cost(pipeline("cosmos3-nano"), instance_type) is None


def test_the_rtx_pro_6000_is_measured_for_videos_and_computed_for_clips() -> None:
    nano, clip = (first_seconds_per_unit(name, "RTX PRO 6000", 1) for name in ("cosmos3-nano", "cosmos-reason2-2b"))
    assert nano == pytest.approx(0.0066 * 1.84, rel=0.01) and clip == pytest.approx(0.076 * 3.35 / 1.597, rel=0.01)


@pytest.mark.parametrize(
    "name", ["cosmos-reason2-2b", "cosmos-reason2-8b", "cosmos3-nano-reason", "cosmos3-edge-reason", "cosmos3-edge"]
)
def test_the_default_type_is_the_cheapest_with_eight_vcpus_for_sparse_traffic(name: str) -> None:
    """With four vCPUs, a worker has too few to decode videos beside its server."""
    one = pipeline(name)
    costs = {
        kind: cost.sparse_dollars
        for kind, instance in INSTANCE_TYPES.items()
        if instance.vcpus >= 8 and (cost := item_cost(one, kind))
    }
    assert min(costs, key=lambda kind: costs[kind]) == one.instance_types[0]
