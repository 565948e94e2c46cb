"""The Spot interruption notice is read from the instance metadata service."""

import threading

import pytest

from cosmos_batch.worker import instance_metadata
from cosmos_batch.worker.instance_metadata import has_spot_notice, watch_for_spot_notice
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
