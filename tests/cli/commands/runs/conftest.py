"""Commands on runs work with the deployment of the tests."""

import pytest

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.deployment import Deployment


@pytest.fixture(autouse=True)
def found_deployment(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)
