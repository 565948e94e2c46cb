"""The end of a job that was never planned is told from its execution."""

from pathlib import Path

import pytest

from cosmos_batch.cli.job_result import read_job_result
from cosmos_batch.cli.job_snapshot import JobExecution
from tests.cli.conftest import STARTED


def test_an_execution_that_ended_without_an_error_of_ours_is_found_in_either_cloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    error = read_job_result(JobExecution("FAILED", STARTED, None, {}, None, "States.Runtime", "A path."), None).error
    assert error is not None and error.message == "A path."
    assert "Step Functions console" in error.remedy and str(tmp_path / "logs") in error.remedy
