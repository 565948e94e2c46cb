"""Pipelines share a total of vCPUs by priority. A worker takes 12 vCPUs here, so two workers fit into a total of 24."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.contract.error import Error
from cosmos_batch.state import PipelineRow, Workers
from lambdas.scaling.vcpu_shares import VCpuShare, workers_to_take_back, workers_with_room
from tests.lambdas.cloud import DEFINITION, LARGE, Cloud
from tests.lambdas.scaling.pipeline_steps import (
    PLANNED,
    SWEEP,
    UNLOADABLE,
    UNREACHABLE,
    enqueue,
    let_pauses_pass,
    nudge,
)


def test_no_pipeline_exceeds_the_total(cloud: Cloud, deployed: Callable[..., None]) -> None:
    deployed(scaling={"max_total_vcpus": 24}, others={LARGE: {}})
    enqueue(cloud, 30)
    nudge(PLANNED)
    assert len(cloud.batch.submitted) == 2


def test_a_lower_priority_leaves_vcpus_for_a_higher_priority(cloud: Cloud, deployed: Callable[..., None]) -> None:
    deployed(scaling={"max_total_vcpus": 24}, others={LARGE: {"priority": 1}})
    Workers(cloud.table, LARGE).wanted(1)
    enqueue(cloud, 30)
    nudge(PLANNED)
    assert len(cloud.batch.submitted) == 1


def test_a_higher_priority_takes_vcpus_back(cloud: Cloud, workers: Workers, deployed: Callable[..., None]) -> None:
    deployed(scaling={"max_total_vcpus": 24}, others={LARGE: {"priority": -1}})
    low = Workers(cloud.table, LARGE)
    for name in ("low-0", "low-1"):
        low.submitted(name, "definition")
    enqueue(cloud, 1)
    nudge(PLANNED)
    assert cloud.batch.submitted == []  # there is no room yet
    assert [row.must_drain for row in low.list()].count(True) == 1
    nudge(SWEEP)
    assert [row.must_drain for row in low.list()].count(True) == 1  # it leaves already
    low.ended(next(row.worker for row in low.list() if row.must_drain))
    nudge(SWEEP)
    assert len(cloud.batch.submitted) == 1


def test_only_the_lowest_of_two_lower_priorities_gives_vcpus_back(cloud: Cloud, deployed: Callable[..., None]) -> None:
    third = "cosmos3-nano"
    deployed(scaling={"max_total_vcpus": 48}, others={LARGE: {"priority": -1}, third: {"priority": -2}})
    lower = {name: Workers(cloud.table, name) for name in (LARGE, third)}
    for name, workers in lower.items():
        for number in range(2):
            workers.submitted(f"{name}-{number}", "definition")
    enqueue(cloud, 1)
    nudge(PLANNED)
    draining = {name: [row.must_drain for row in workers.list()].count(True) for name, workers in lower.items()}
    assert draining == {LARGE: 0, third: 1}


@pytest.mark.parametrize("priority", [0, 1])
def test_no_vcpus_are_taken_from_equal_or_higher_priorities(
    cloud: Cloud, deployed: Callable[..., None], priority: int
) -> None:
    deployed(scaling={"max_total_vcpus": 24}, others={LARGE: {"priority": priority}})
    other = Workers(cloud.table, LARGE)
    for name in ("a", "b"):
        other.submitted(name, "definition")
    enqueue(cloud, 1)
    nudge(PLANNED)
    assert not [row for row in other.list() if row.must_drain]


@pytest.mark.parametrize("error", [UNREACHABLE, UNLOADABLE], ids=["pauses", "refuses"])
def test_a_pipeline_whose_workers_cannot_start_keeps_no_vcpus_from_others(
    cloud: Cloud, workers: Workers, deployed: Callable[..., None], error: Error
) -> None:
    deployed(scaling={"max_total_vcpus": 24}, others={LARGE: {"priority": -1}})
    enqueue(cloud, 30)
    nudge(PLANNED)
    assert len(cloud.batch.submitted) == 2
    for worker in ("job-0", "job-1"):
        cloud.batch.jobs[worker] |= {"status": "FAILED", "statusReason": "Essential container in task exited"}
        workers.ended(worker, error)
    nudge(SWEEP)
    nudge({"pipeline": LARGE})
    assert [submitted["jobQueue"] for submitted in cloud.batch.submitted[2:]] == [LARGE]


def test_a_pipeline_that_may_start_one_worker_takes_vcpus_back_for_one(
    cloud: Cloud, workers: Workers, deployed: Callable[..., None]
) -> None:
    """After failures one worker at a time shows whether workers can serve again."""
    deployed(scaling={"max_total_vcpus": 24}, others={LARGE: {"priority": -1}})
    low = Workers(cloud.table, LARGE)
    for name in ("low-0", "low-1"):
        low.submitted(name, "definition")
    later = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
    failing = PipelineRow(failures=1, reason=UNREACHABLE, retry_at=later, job_definition=DEFINITION)
    workers.set_breaker(failing)
    enqueue(cloud, 30)
    nudge(PLANNED)
    assert [row.must_drain for row in low.list()].count(True) == 0
    let_pauses_pass(workers)
    nudge(SWEEP)
    assert [row.must_drain for row in low.list()].count(True) == 1


SHARES = st.builds(
    VCpuShare, st.integers(0, 3), st.integers(1, 48), st.integers(4, 8), st.integers(0, 12), st.integers(0, 4)
)


@given(total=st.integers(1, 400), own=SHARES, others=st.lists(SHARES, max_size=3))
def test_started_workers_stay_within_the_total(total: int, own: VCpuShare, others: list[VCpuShare]) -> None:
    running = sum(one.running * one.vcpus for one in [own, *others])
    assert max(running, running + workers_with_room(total, own, others) * own.vcpus) <= max(total, running)


@given(total=st.integers(1, 400), own=SHARES, others=st.lists(SHARES, max_size=3))
def test_workers_taken_back_are_enough_or_all_there_are(total: int, own: VCpuShare, others: list[VCpuShare]) -> None:
    back = workers_to_take_back(total, own, others)
    lower = [one.priority < own.priority for one in others]
    assert all(count == 0 for count, is_lower in zip(back, lower, strict=True) if not is_lower or not own.unmet_vcpus)
    free = total - sum(one.running * one.vcpus for one in [own, *others])
    coming = sum(one.leaving * one.vcpus for one in others)
    lacking = own.unmet_vcpus - free - coming
    freed = sum(count * one.vcpus for count, one in zip(back, others, strict=True))
    staying = [one.running - one.leaving for one in others]
    all_there_is = all(back[i] == staying[i] for i, is_lower in enumerate(lower) if is_lower)
    if own.unmet_vcpus and lacking > 0:
        assert freed >= lacking or all_there_is
        # Nobody leaves for nothing: without the smallest that leaves it would be too little.
        leaving = [one.vcpus for count, one in zip(back, others, strict=True) if count]
        assert not leaving or freed - max(leaving) < lacking
    else:
        assert not any(back)
