"""Files at https addresses are copied into S3 when a run starts, each once; one that cannot be fetched fails alone."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.runs import web_copies
from cosmos_batch.cli.runs.run_plan import plan_run
from cosmos_batch.cli.web_download import WebVersion
from tests.cli.runs.conftest import ask
from tests.support.runs import read_items

LINES = [{"id": "a", "input": "https://h.io/a.png"}, {"id": "gone", "input": "https://h.io/gone.png"}]


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Answer addresses with a picture's bytes, and that of `gone` with an error; provide those that were asked for."""
    asked: list[str] = []

    class Web:
        given_up = threading.Event()

        def fetch(self, address: str, path: Path, known: WebVersion) -> WebVersion:
            asked.append(address)
            if "gone" in address:
                raise CliError(f"{address} cannot be fetched: its host answered 404.", "Copy it yourself.")
            path.write_bytes(b"a picture")
            return WebVersion()

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


class VersionedWeb:
    """Hosts whose files have versions, that answer, change, fail or interrupt the command as a test says."""

    def __init__(self) -> None:
        self.version, self.fetched = "1", list[str]()
        self.fault: BaseException | None = None
        self.given_up = threading.Event()

    def fetch(self, address: str, path: Path, known: WebVersion) -> WebVersion | None:
        if "gone" in address and self.fault is not None:
            raise self.fault
        version = WebVersion(etag=f'"{self.version}"', changed="Mon, 23 Nov 2026 10:00:00 GMT")
        if known == version:
            return None
        self.fetched.append(address)
        path.write_bytes(f"picture {self.version}".encode())
        return version


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> VersionedWeb:
    web = VersionedWeb()
    monkeypatch.setattr(web_copies, "WebDownload", lambda: web)
    return web


def copies(deployment: Deployment, run: str) -> list[bytes]:
    s3 = deployment.clients("s3")
    keys = [str(item.input).removeprefix("s3://assets/") for item in read_items(s3, "state", run)]
    return [s3.get_object(Bucket="assets", Key=key)["Body"].read() for key in keys]


def test_a_file_that_changed_at_its_address_is_copied_again_and_no_other_is(
    start: Callable[[], str], web: VersionedWeb, deployment: Deployment
) -> None:
    first = start()
    assert copies(deployment, first) == [b"picture 1", b"picture 1"]
    start()
    assert len(web.fetched) == 2, "neither has changed"
    web.version = "2"
    assert copies(deployment, start()) == [b"picture 2", b"picture 2"]


def test_the_earlier_copy_is_used_where_its_host_does_not_answer_any_more(
    start: Callable[[], str], web: VersionedWeb, deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    start()
    web.fault = CliError("https://h.io/gone.png cannot be fetched: its host answered 503.", "Try again.")
    assert copies(deployment, start()) == [b"picture 1", b"picture 1"]
    assert "its host answered 503. Its earlier copy is used." in capsys.readouterr().err


def test_a_start_that_is_killed_while_it_copies_goes_on_with_the_missing_files(
    start: Callable[[], str], web: VersionedWeb, deployment: Deployment
) -> None:
    web.fault = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        start()
    assert web.given_up.is_set(), "what is being fetched ends too"
    web.fault = None
    assert copies(deployment, start()) == [b"picture 1", b"picture 1"]
    assert sorted(web.fetched) == ["https://h.io/a.png", "https://h.io/gone.png"]


def test_nothing_is_fetched_for_a_plan(fetched: list[str], deployment: Deployment, tmp_path: Path) -> None:
    open_ = replace(deployment, input_hosts=["h.io"])
    (tmp_path / "list.jsonl").write_text(json.dumps(LINES[0]))
    plan_run(open_, ask(open_, str(tmp_path / "list.jsonl"), "--prompt", "What?")).close()
    assert fetched == []
