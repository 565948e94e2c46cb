"""The shares of jobs that are in the engine together add up to the time that the engine was busy."""

import pytest

from cosmos_batch.worker import engine_shares
from cosmos_batch.worker.engine_shares import EngineShares


def test_shares_of_jobs_add_up_to_the_busy_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(engine_shares.time, "monotonic", lambda: now)
    shares = EngineShares()
    now = 5.0  # nothing is in the engine
    first = shares.enter()
    now = 7.0  # the first alone for 2 s
    second = shares.enter()
    now = 11.0  # both for 4 s
    assert shares.leave(first) == pytest.approx(4.0)
    now = 12.0  # the second alone for 1 s
    assert shares.leave(second) == pytest.approx(3.0)
