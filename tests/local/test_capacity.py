"""What jobs wait for, without a cloud."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cosmos_batch.local.batch.capacity import Allotment, Capacity, gpus_here


def job(vcpus: int = 100) -> Any:
    environment = SimpleNamespace(arn="ce", state="ENABLED", compute_resources={"maxvCpus": vcpus})
    return SimpleNamespace(stop=False, job_queue=SimpleNamespace(arn="queue", environments=[environment]))


def taken(capacity: Capacity, gpus: int) -> Allotment:
    place = capacity.acquire(job(), 1, gpus)
    assert place is not None
    return place


def test_each_gpu_is_one_jobs() -> None:
    capacity = Capacity(["0", "1"])
    first, second = taken(capacity, 1), taken(capacity, 1)
    assert [first.environment, second.environment] == [{"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1"}]
    got: list[Allotment] = []
    waiting = threading.Thread(target=lambda: got.append(taken(capacity, 1)))
    waiting.start()
    waiting.join(0.1)
    assert not got
    capacity.release(second)
    waiting.join(10)
    assert [one.gpus for one in got] == [["1"]]


def test_one_that_asks_for_more_than_there_are_gets_all() -> None:
    assert taken(Capacity(["0", "1"]), 4).gpus == ["0", "1"]


def test_one_that_asks_for_none_sees_none() -> None:
    assert taken(Capacity(["0"]), 0).environment == {"CUDA_VISIBLE_DEVICES": ""}


def test_on_a_machine_without_gpus_nothing_is_said_of_them() -> None:
    assert taken(Capacity([]), 4).environment == {}


def test_a_job_that_is_stopped_waits_no_more() -> None:
    capacity, stopped = Capacity([]), job(vcpus=0)
    stopped.stop = True
    assert capacity.acquire(stopped, 1, 0) is None


def test_the_gpus_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name in ("nvidia0", "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert gpus_here(tmp_path) == ["0", "2", "10"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, 0")
    assert gpus_here(tmp_path) == ["2", "0"]
