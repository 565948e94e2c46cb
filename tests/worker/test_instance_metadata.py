"""The Spot interruption notice and the instance type are read from the instance metadata service."""

import threading

import pytest

from cosmos_batch.worker import instance_metadata
from cosmos_batch.worker.instance_metadata import InstanceTypeReader, has_spot_notice, watch_for_spot_notice
from tests.support.metadata_service import metadata_service


def test_a_spot_notice_calls_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_metadata, "NOTICE_PERIOD_SECONDS", 0.01)
    heard = threading.Event()
    with metadata_service() as service:
        for name, value in service.variables.items():
            monkeypatch.setenv(name, value)
        watch_for_spot_notice(heard.set)
        assert not heard.wait(0.1)
        service.notice = True
        assert heard.wait(60)


def test_without_a_metadata_service_there_is_no_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:9")
    assert not has_spot_notice()


def test_an_instance_type_that_was_not_read_is_read_later_and_then_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """One slow answer must not make all later jobs of a worker free of cost."""
    monkeypatch.setattr(instance_metadata, "ASK_AGAIN_SECONDS", 0)
    host = InstanceTypeReader()
    unreachable = "http://127.0.0.1:9"
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", unreachable)
    assert host.get() is None
    with metadata_service() as service:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.variables["AWS_EC2_METADATA_SERVICE_ENDPOINT"])
        assert host.get() == "g6e.12xlarge"
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", unreachable)
    assert host.get() == "g6e.12xlarge"


def test_outside_of_ec2_not_every_job_waits_for_the_metadata_service(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def no_answer(name: str) -> str:
        asked.append(name)
        raise TimeoutError

    monkeypatch.setattr(instance_metadata, "ASK_AGAIN_SECONDS", 3600)
    monkeypatch.setattr(instance_metadata, "_read", no_answer)
    host = InstanceTypeReader()
    assert [host.get(), host.get()] == [None, None]
    assert asked == ["instance-type"]
