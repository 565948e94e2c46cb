"""Fixtures of the tests of `scale`: its settings, the deployed pipelines, and the rows of the first one's workers."""

from collections.abc import Callable
from typing import Any

import pytest

from cosmos_batch.contract.environment import DeployedCompute, ScaleEnvironment
from cosmos_batch.contract.settings import ScalingSettings
from cosmos_batch.state import Workers
from lambdas.handlers import scale
from lambdas.reporting import refusal
from tests.lambdas.cloud import SMALL, Cloud


@pytest.fixture
def deployed_scale(configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Give `scale` its environment, and let it wait for no message of an empty queue."""
    configure(ScaleEnvironment)
    monkeypatch.setattr(refusal, "WAIT_SECONDS", 0)


@pytest.fixture
def workers(cloud: Cloud) -> Workers:
    return Workers(cloud.table, SMALL)


@pytest.fixture
def deployed(
    cloud: Cloud, workers: Workers, configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Provide a function that deploys the pipeline with changes, and others with lower or higher priority.

    The measured pace of the pipeline is five seconds for a job: a worker drains two jobs in the configured ten seconds.
    """
    workers.measured(seconds_per_unit=5)

    def deploy(
        scaling: dict[str, Any] | None = None, others: dict[str, dict[str, Any]] | None = None, **pipeline: Any
    ) -> None:
        configure(ScaleEnvironment)
        first = scale.deployed_pipelines()[0].model_copy(update=pipeline)
        pipelines: list[DeployedCompute] = [first]
        for name, changed in (others or {}).items():
            fields = {"id": name, "queue_url": cloud._queue(name), "job_queue": name, **changed}
            pipelines.append(first.model_copy(update=fields))
        settings = ScalingSettings(target_drain_seconds=10, **(scaling or {}))
        environment = scale.environment().model_copy(update={"scaling": settings})
        monkeypatch.setattr(scale, "environment", lambda: environment)
        monkeypatch.setattr(scale, "deployed_pipelines", lambda: pipelines)

    return deploy
