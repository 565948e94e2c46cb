"""Capacity allots vCPUs and GPUs to jobs; these tests need no cloud."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cosmos_batch.local.batch.capacity import Allotment, Capacity, gpus_here


def job(vcpus: int = 100) -> Any:
    environment = SimpleNamespace(arn="ce", state="ENABLED", compute_resources={"maxvCpus": vcpus})
    return SimpleNamespace(stop=False, job_queue=SimpleNamespace(arn="queue", environments=[environment]))


def allotted(capacity: Capacity, gpus: int) -> Allotment:
    place = capacity.acquire(job(), 1, gpus)
    assert place is not None
    return place


def test_each_gpu_belongs_to_one_job_at_a_time() -> None:
    capacity = Capacity(["0", "1"])
    first, second = allotted(capacity, 1), allotted(capacity, 1)
    assert [first.environment, second.environment] == [{"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1"}]
    got: list[Allotment] = []
    waiting = threading.Thread(target=lambda: got.append(allotted(capacity, 1)))
    waiting.start()
    waiting.join(0.1)
    assert not got
    capacity.release(second)
    waiting.join(10)
    assert [allotment.gpus for allotment in got] == [["1"]]


def test_a_job_that_requests_more_gpus_than_exist_gets_all() -> None:
    assert allotted(Capacity(["0", "1"]), 4).gpus == ["0", "1"]


def test_a_job_that_requests_no_gpus_sees_none() -> None:
    assert allotted(Capacity(["0"]), 0).environment == {"CUDA_VISIBLE_DEVICES": ""}


def test_on_a_machine_without_gpus_no_variable_is_set() -> None:
    assert allotted(Capacity([]), 4).environment == {}


def test_a_stopped_job_ends_its_wait_for_capacity() -> None:
    capacity, stopped = Capacity([]), job(vcpus=0)
    stopped.stop = True
    assert capacity.acquire(stopped, 1, 0) is None


def test_gpus_are_found_in_dev_or_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name in ("nvidia0", "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert gpus_here(tmp_path) == ["0", "2", "10"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, 0")
    assert gpus_here(tmp_path) == ["2", "0"]
