"""A job that was never planned ends as its execution, and a result is saved under the path of its input."""

from pathlib import Path

import pytest

from cosmos_batch.cli.job_result import read_job_result, saved_name
from cosmos_batch.cli.job_snapshot import JobExecution
from tests.cli.conftest import STARTED


def test_an_execution_that_ended_without_an_error_of_ours_is_found_in_either_cloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    error = read_job_result(JobExecution("FAILED", STARTED, None, {}, None, "States.Runtime", "A path."), None).error
    assert error is not None and error.message == "A path."
    assert "Step Functions console" in error.remedy and str(tmp_path / "logs") in error.remedy


def test_inputs_of_one_name_come_out_under_mirrored_paths() -> None:
    first = "s3://assets/uploads/20261120-120000-0123abcd/ep1/cam_CosmosReason_20261120-120001.json"
    second = "s3://videos/inbox/uploads/20261120-120000-0123abcd/ep2/cam_CosmosReason_20261120-120001.json"
    assert saved_name(first) == "ep1/cam_CosmosReason_20261120-120001.json"
    assert saved_name(second) == "ep2/cam_CosmosReason_20261120-120001.json"
    assert saved_name("s3://videos/robots/../ep3/cam.json") == "robots/%2E%2E/ep3/cam.json"
