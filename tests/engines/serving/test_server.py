"""A server process that a worker starts: readiness, crashes, stopping, and its end with the worker."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.serving.server import Server, ServerDied

SCRIPT = Path(__file__).parents[2] / "support" / "vllm_server.py"
Start = Callable[..., Server]


def command(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, str(SCRIPT), str(folder / "socket"), *arguments]


PATIENCE = 120.0  # seconds, a guard against hanging and nothing else


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Server] = []

    def start(*arguments: str) -> Server:
        started.append(Server(lambda folder: command(folder, *arguments), lambda _: {}, on_line=lambda _: None))
        return started[-1]

    yield start
    for server in started:
        server.stop()


def lives(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


def test_a_server_is_ready_when_health_answers(start: Start) -> None:
    server = start()
    server.wait_until_ready(PATIENCE)
    assert server.is_running
    until(lambda: bool(server.last_lines))  # a thread reads them
    assert server.last_lines[0] == "serving 1"


def test_a_server_that_ends_before_it_is_ready_is_an_error(start: Start) -> None:
    server = start("--sequences", "9", "--most", "1")
    with pytest.raises(ServerDied, match="ended with status 1"):
        server.wait_until_ready(PATIENCE)
    assert "No available memory" in server.last_lines[-1]
    assert not server.folder.exists()


def test_an_exception_that_a_warning_quotes_did_not_happen() -> None:
    said = "This can cause fd limit errors like `os.OSError: [Errno 24] Too many open files`. Consider ulimit -n"
    script = f"print({said!r}); raise RuntimeError('no `GPU`')"
    server = Server(lambda _: [sys.executable, "-c", script], lambda _: {}, on_line=lambda _: None)
    try:
        assert server.wait(PATIENCE)
        assert server.exceptions == ["RuntimeError: no `GPU`"] == server.error_lines
    finally:
        server.stop()


def test_a_server_that_is_not_ready_in_time_is_stopped(start: Start) -> None:
    server = start("--deaf")
    with pytest.raises(ServerDied, match="was not ready within 1 s"):
        server.wait_until_ready(1)
    assert not server.is_running


def test_a_missing_program_is_an_error_and_leaves_no_folder() -> None:
    folders = []

    def nowhere(folder: Path) -> list[str]:
        folders.append(folder)
        return ["/nowhere/vllm"]

    with pytest.raises(Failure, match=r"could not be started: .*/nowhere/vllm") as raised:
        Server(nowhere, lambda _: {}, on_line=lambda _: None)
    assert raised.value.error.remedy and [folder.exists() for folder in folders] == [False]


def test_stopping_ends_children_that_ignore_sigterm(start: Start, tmp_path: Path) -> None:
    server = start("--child", str(tmp_path / "child"))
    server.wait_until_ready(PATIENCE)
    child = int((tmp_path / "child").read_text())
    server.stop()
    until(lambda: not lives(child))


def test_the_signal_that_killed_a_server_is_reported(start: Start) -> None:
    server = start()
    server.wait_until_ready(PATIENCE)
    os.kill(server._process.pid, signal.SIGKILL)
    assert server.wait(20)
    assert server.describe_end() == "was killed by SIGKILL"


def test_a_server_ends_with_its_worker(tmp_path: Path) -> None:
    """A worker that is killed can stop nothing, so a guard process does."""
    worker = (
        "import sys, time\n"
        "from tests.engines.serving.test_server import Server, command\n"
        "from pathlib import Path\n"
        f"serve = lambda folder: command(folder, '--child', {str(tmp_path / 'child')!r})\n"
        "server = Server(serve, lambda _: {}, on_line=lambda _: None)\n"
        f"Path({str(tmp_path / 'server')!r}).write_text(str(server._process.pid))\n"
        f"Path({str(tmp_path / 'folder')!r}).write_text(str(server.folder))\n"
        f"server.wait_until_ready({PATIENCE})\nprint('ready', flush=True)\ntime.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", worker], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    members = [int((tmp_path / name).read_text()) for name in ("server", "child")]
    assert all(map(lives, members))
    process.kill()
    process.wait()
    until(lambda: not any(map(lives, members)))
    assert not Path((tmp_path / "folder").read_text()).exists()
