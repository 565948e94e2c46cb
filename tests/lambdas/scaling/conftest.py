from collections.abc import Callable

import pytest

from cosmos_batch.contract.environment import ScaleEnvironment
from cosmos_batch.state import Workers
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
