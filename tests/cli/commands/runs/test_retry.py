"""Asking again what failed in a run."""

import json

import pytest

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.runs import ItemEstimate, RunItem
from tests.cli.commands.runs.conftest import put_row
from tests.cli.conftest import FakeStepFunctions
from tests.support.run_objects import answered, failed, put_run
from tests.support.runs import read_items, read_shards

LATE = Error(code="TimedOut", message="It took too long.", remedy="Ask again.")
ESTIMATE = ItemEstimate(gpu_seconds={"cosmos-reason2-2b": 3.5})


@pytest.fixture
def over(deployment: Deployment) -> str:
    """Provide a run that has ended: of 600 items, 400 took too long, one was damaged, and the others are answered."""
    s3, run, lines = deployment.clients("s3"), "over", []
    for number in range(600):
        item = f"{number:03}.mp4"
        lines.append(failed(item, LATE) if number < 400 else failed(item) if number == 599 else answered(item))
    shards = [lines[first : first + 200] for first in (0, 200, 400)]
    put_run(s3, run, shards)
    for number, shard in enumerate(shards):
        items = [RunItem(id=line.id, input=line.input, etag='"old"', prompt=f"About {line.id}?") for line in shard]
        text = "".join(f"{item.model_dump_json(exclude_defaults=True)}\n" for item in items)
        s3.put_object(Bucket="state", Key=f"runs/{run}/shards/{number:05}.jsonl", Body=text)
    s3.put_object(Bucket="state", Key=f"runs/{run}/estimate.json", Body=ESTIMATE.model_dump_json().encode())
    put_row(deployment, run, items=600, shards=3)
    deployment.runs.end(run, deployment.execution_arn(run), "SUCCEEDED", None)
    return run


def test_everything_that_failed_is_asked_again_as_a_new_run(
    over: str, deployment: Deployment, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "retry", over, "--failed", "--max-dollars", "5"]) == 0
    printed, [started], s3 = capsys.readouterr(), stepfunctions.started, deployment.clients("s3")
    new = printed.out.strip()
    assert json.loads(started["input"]) == {"run": {"id": new}} and started["name"] == new
    assert "401 items of over" in printed.err
    items = read_items(s3, "state", new)
    assert [item.id for item in items] == [*(f"{number:03}.mp4" for number in range(400)), "599.mp4"]
    assert items[0].prompt == "About 000.mp4?" and items[0].etag is None, "a file that was replaced is taken"
    assert [ref.items for ref in read_shards(s3, "state", new)] == [10, 20, 40, 80, 160, 91]
    assert StoredRun(s3, "state", new).estimate() == ESTIMATE, "its items are of the same length"
    request = StoredRun(s3, "state", new).request()
    assert request.retry_failed and request.max_dollars == 5 and request.prompt == "What happens?"


def test_a_retry_that_was_interrupted_goes_on_and_another_one_of_its_name_is_refused(
    over: str, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(StoredRun, "write_plan", interrupt)
        assert main(["runs", "retry", over, "--failed", "--name", "again"]) == 130
    assert main(["runs", "retry", over, "--code", "InvalidInput", "--name", "again"]) == 2
    assert "The name again was taken" in capsys.readouterr().err and stepfunctions.started == []
    assert main(["runs", "retry", over, "--failed", "--name", "again"]) == 0


def test_what_failed_with_a_code_is_asked_again(
    over: str, deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "retry", over, "--code", "InvalidInput", "--name", "again"]) == 0
    assert capsys.readouterr().out == "again\n"
    assert [item.id for item in read_items(deployment.clients("s3"), "state", "again")] == ["599.mp4"]


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ([], 2, "--failed: everything"),
        (["--code", "Blocked"], 2, "No failed item of over matches --code Blocked."),
        (["--code", "Sloth"], 2, "'Sloth' is not one of"),
        (["--failed", "--name", "over"], 2, "There is a run over already"),
    ],
)
def test_a_wrong_retry_starts_nothing(
    options: list[str], status: int, message: str, over: str, stepfunctions: FakeStepFunctions,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert main(["runs", "retry", over, *options]) == status
    assert message in capsys.readouterr().err and stepfunctions.started == []


def test_a_run_that_goes_on_is_not_retried(half: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "retry", half, "--failed"]) == 3
    assert f"cosmos-batch runs watch {half}" in capsys.readouterr().err
