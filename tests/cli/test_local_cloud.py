"""The local cloud, as this app starts it."""

from pathlib import Path

import pytest

from cosmos_batch.cli.local_cloud import default_home


def test_the_home_is_configurable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    assert default_home() == tmp_path
    monkeypatch.delenv("COSMOS_BATCH_HOME")
    assert default_home() == Path.home() / ".cache" / "cosmos-batch"
