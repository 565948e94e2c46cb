"""Files at https addresses are copied into S3 when a run starts, each once; one that cannot be had fails alone."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.runs import web_copies
from cosmos_batch.cli.runs.run_plan import plan_run
from tests.cli.runs.conftest import ask
from tests.support.runs import read_items

LINES = [{"id": "a", "input": "https://h.io/a.png"}, {"id": "gone", "input": "https://h.io/gone.png"}]


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Answer addresses with a picture's bytes, and that of `gone` with an error; provide those that were asked for."""
    asked: list[str] = []

    class Web:
        def fetch(self, address: str, path: Path) -> None:
            asked.append(address)
            if "gone" in address:
                raise CliError(f"{address} cannot be fetched: its host answered 404.", "Copy it yourself.")
            path.write_bytes(b"a picture")

    monkeypatch.setattr(web_copies, "WebDownload", Web)
    return asked


@pytest.fixture
def start(deployment: Deployment, tmp_path: Path) -> Callable[[], str]:
    """Provide a function that plans and writes a run over two addresses, and returns its id."""
    open_ = replace(deployment, input_hosts=["h.io"])
    (tmp_path / "list.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in LINES))

    def start() -> str:
        planned = plan_run(open_, ask(open_, str(tmp_path / "list.jsonl"), "--prompt", "What?"))
        assert planned.estimate.copies == 2 and planned.estimate.unreadable == 0
        planned.write()
        return planned.request.id

    return start


def test_each_address_is_copied_once_and_one_that_fails_is_named(
    start: Callable[[], str], fetched: list[str], deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start()
    assert sorted(fetched) == ["https://h.io/a.png", "https://h.io/gone.png"]
    assert "https://h.io/gone.png cannot be fetched: its host answered 404." in capsys.readouterr().err
    s3 = deployment.clients("s3")
    items = {item.id: str(item.input) for item in read_items(s3, "state", run)}
    assert items.keys() == {"a", "gone"}, "the other fails as an item of the run"
    key = items["a"].removeprefix("s3://assets/")
    found = s3.get_object(Bucket="assets", Key=key)
    assert found["Body"].read() == b"a picture"
    assert found["Metadata"], "its arrival starts no job by itself"

    fetched.clear()
    start()
    assert fetched == ["https://h.io/gone.png"]


def test_nothing_is_fetched_for_a_plan(fetched: list[str], deployment: Deployment, tmp_path: Path) -> None:
    open_ = replace(deployment, input_hosts=["h.io"])
    (tmp_path / "list.jsonl").write_text(json.dumps(LINES[0]))
    plan_run(open_, ask(open_, str(tmp_path / "list.jsonl"), "--prompt", "What?")).close()
    assert fetched == []
