"""The processes of Lambda functions, which one process forks; these tests need no cloud."""

import fcntl
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.local import runtime
from cosmos_batch.local.lambda_functions import processes
from cosmos_batch.local.lambda_functions.forked_processes import KILLED, ForkServer, wait_readable
from cosmos_batch.local.lambda_functions.processes import DeployedFunction, FunctionProcess

HANDLER = """
import gc, os, sys, colorsys, boto3
calls = []
def handler(event, context):
    calls.append(event)
    colorsys.changed = getattr(colorsys, "changed", 0) + 1
    if "exit" in event: sys.exit(event["exit"])
    if "kill" in event: os.kill(os.getpid(), event["kill"])
    print("called")
    return {"calls": len(calls), "changed": colorsys.changed,
            "parent": os.getppid(), "leads": os.getsid(0) == os.getpid(),
            "shared": boto3.DEFAULT_SESSION is not None, "own": [os.environ.get(name) for name in ("A", "B")],
            "frozen": gc.get_freeze_count(),
            "files": len(os.listdir("/proc/self/fd")), "name": context.function_name, "cwd": os.getcwd(),
            "value": __import__(event["import"]).VALUE if "import" in event else None}
"""
ALWAYS = {
    "AWS_REGION": "us-east-1",
    "AWS_ACCOUNT_ID": "123456789012",
    "AWS_LAMBDA_FUNCTION_NAME": "name",
    "AWS_LAMBDA_FUNCTION_VERSION": "1",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "128",
    "AWS_LAMBDA_LOG_GROUP_NAME": "group",
}

Start = Callable[..., FunctionProcess]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start processes of functions, with a fork server of the test's own that has imported `colorsys`."""
    cloud = runtime.CloudRuntime(tmp_path, 1, "test", 1.0, function_modules=("colorsys",))
    cloud.logs.mkdir()
    monkeypatch.setattr(runtime, "_current", cloud)
    server = ForkServer()
    monkeypatch.setattr(processes, "fork_server", server)
    started = []

    def start(files: dict[str, str] | None = None, **environment: str) -> FunctionProcess:
        folder = tmp_path / f"code-{len(started)}"
        folder.mkdir()
        for name, text in {"index.py": HANDLER, **(files or {})}.items():
            (folder / name).write_text(text)
        variables = tuple({**ALWAYS, **environment}.items())
        process = FunctionProcess(DeployedFunction("name", "index.handler", "", variables, b"", 120), folder)
        started.append(process)
        return process

    yield start
    for process in started:
        process.close()
    server.close()


def call(process: FunctionProcess, **event: Any) -> Any:
    return json.loads(process.invoke(event, "request").payload)


def test_each_process_has_its_own_modules_and_environment(start: Start) -> None:
    first, second = start(A="1"), start(B="2")
    assert (call(first)["calls"], call(first)["calls"]) == (1, 2)
    other, mine = call(second), call(first)
    assert (other["calls"], other["changed"], other["own"]) == (1, 1, [None, "2"])
    assert (mine["calls"], mine["changed"], mine["own"]) == (3, 3, ["1", None])
    assert mine["parent"] == other["parent"] != os.getpid()
    assert not mine["shared"]
    assert mine["frozen"] > 10_000, "what is shared would be copied by a garbage collection"


def test_a_process_leads_a_session_runs_in_its_folder_and_holds_no_file_of_another(start: Start) -> None:
    answers = [call(start()) for _ in range(3)]
    assert all(answer["leads"] for answer in answers)
    assert len({answer["cwd"] for answer in answers}) == 3
    assert answers[0]["files"] == answers[2]["files"]


@pytest.mark.parametrize(("event", "code"), [({"exit": 3}, 3), ({"kill": signal.SIGSEGV}, -signal.SIGSEGV)])
def test_the_crash_of_a_process_is_reported_and_hurts_no_other(start: Start, event: dict[str, int], code: int) -> None:
    crashing, other = start(), start()
    before = call(other)
    answer = crashing.invoke(event, "request")
    assert answer.failed
    assert f"exit status {code}" in answer.payload
    assert not crashing.alive
    assert other.alive
    after = call(other)
    assert (after["calls"], after["parent"]) == (2, before["parent"])
    assert call(start())["parent"] == before["parent"]


def test_the_fork_server_is_replaced_when_it_was_killed(start: Start) -> None:
    first = start()
    parent = call(first)["parent"]
    os.kill(parent, signal.SIGKILL)
    assert first._process.wait(60) == KILLED, "it has no parent any more that reports how it ends"
    assert not first.alive
    assert call(start())["parent"] != parent


def test_code_that_brings_a_preloaded_module_imports_its_own(start: Start) -> None:
    assert call(start({"colorsys.py": "VALUE = 'own'\n"}), **{"import": "colorsys"})["value"] == "own"


def test_a_variable_that_python_reads_at_its_start_has_effect(start: Start, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "added.py").write_text("VALUE = 'on the path'\n")
    answer = call(start(PYTHONPATH=str(tmp_path / "more")), **{"import": "added"})
    assert (answer["value"], answer["calls"], answer["leads"]) == ("on the path", 1, True)


def test_what_a_process_prints_is_in_its_own_log(start: Start) -> None:
    first, second = start(), start()
    first.invoke({}, "request")
    assert [line for line in second.invoke({}, "request").logs if line == "called"] == ["called"]


def test_file_descriptors_above_the_limit_of_select_can_be_waited_for() -> None:
    """A cloud with hundreds of executions has more than 1,024 files open."""
    reader, writer = os.pipe()
    high = fcntl.fcntl(reader, fcntl.F_DUPFD, 1500)

    assert not wait_readable(high, 0)
    os.write(writer, b"x")
    assert wait_readable(high, 0)

    for descriptor in (reader, writer, high):
        os.close(descriptor)
