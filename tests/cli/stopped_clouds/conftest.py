"""A local cloud that `local down` stops."""

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.commands import local
from cosmos_batch.cli.deployment import Deployment

ENDPOINT = "http://localhost:1"


class Cloud:
    """A fake with the attributes of a cloud that `local down` uses."""

    def __init__(self) -> None:
        self.stopped = False

    def client(self, service: str) -> Any:
        pytest.fail(f"nothing here may ask {service}")

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def cloud(deployment: Deployment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cloud:
    """Provide a fake local cloud with the deployment of the tests. Once it is stopped, commands find no cloud."""
    running = Cloud()

    def find(_: object = None) -> Deployment:
        if running.stopped:
            raise EndpointConnectionError(endpoint_url=ENDPOINT)
        return deployment

    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ENDPOINT_URL", ENDPOINT)
    monkeypatch.setattr(deployments, "find", find)
    monkeypatch.setattr(local.LocalCloud, "find", lambda _: None if running.stopped else running)
    return running
