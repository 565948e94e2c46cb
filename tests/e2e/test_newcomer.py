"""A machine without NVIDIA's model: a local cloud, a run over a folder, and what is left once the cloud is stopped."""

import csv
import json
import shlex
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cosmos_batch.local.cloud import LocalCloud
from tests.support.deployed_app import wait_for
from tests.support.installed_program import Shell

pytestmark = pytest.mark.timeout(900)

NOTE = "cosmos-batch/demo-reason answers: a small model that knows clips and images of one to three simple shapes"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory, clip: Path, picture: Path) -> Iterator[Shell]:
    """Provide a shell in a folder with a clip and an image, on a machine that cannot reach the Hub."""
    folder = tmp_path_factory.mktemp("newcomer")
    (folder / "clips" / "deep").mkdir(parents=True)
    shutil.copy(clip, folder / "clips" / "a.mp4")
    shutil.copy(picture, folder / "clips" / "deep" / "b.png")
    nobody = "http://127.0.0.1:9"
    yield Shell(folder, {"COSMOS_BATCH_HOME": str(folder / "home"), "HF_ENDPOINT": nobody, "HOME": str(folder)})
    if cloud := LocalCloud.find(folder / "home"):
        cloud.stop()


@pytest.fixture(scope="module")
def in_cloud(shell: Shell) -> Shell:
    """Provide a shell after `eval "$(cosmos-batch local up --export)"`."""
    out, err = shell.run("local", "up", "--export")
    assert NOTE in err and "cannot be reached" in err, "what answers, and why"
    exports = (line.removeprefix("export ").partition("=") for line in out.splitlines())
    return shell.with_variables({name: shlex.split(value)[0] for name, _, value in exports})


def test_ctrl_c_while_the_local_cloud_is_deployed_to_leaves_nothing_running(shell: Shell) -> None:
    home = Path(shell.variables["COSMOS_BATCH_HOME"])
    with shell.start("local", "up") as process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith("CDK app"):
            assert process.poll() is None
        cloud = LocalCloud.find(home)
        assert cloud is not None, "the deployment has begun"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130 and err.endswith("Interrupted.\n"), err
    assert LocalCloud.find(home) is None
    with socket.socket() as connection:
        assert connection.connect_ex(("127.0.0.1", urlsplit(cloud.endpoint).port or 0)) != 0
    assert "No local cloud runs" in shell.run("local", "status", status=1)[0]


HELD_WHILE_IT_STOPS = """
import sys, time
from pathlib import Path
from cosmos_batch.cli.main import main
from cosmos_batch.local import cloud

stopping, go, end = Path("stopping"), Path("go"), cloud._end

def end_when_allowed(process_id):
    stopping.touch()
    while not go.exists():
        time.sleep(0.05)
    end(process_id)

cloud._end = end_when_allowed
sys.exit(main(sys.argv[1:]))
"""


def test_a_second_ctrl_c_while_the_first_one_stops_the_cloud_leaves_nothing_running(shell: Shell) -> None:
    with shell.start("local", "up", program=(sys.executable, "-c", HELD_WHILE_IT_STOPS)) as process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith("CDK app"):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        wait_for((shell.folder / "stopping").exists, 120, "it does not stop the cloud")
        process.send_signal(signal.SIGINT)
        (shell.folder / "go").touch()
        _, err = process.communicate()
    assert process.returncode == 130 and err.endswith("Interrupted.\n") and "Traceback" not in err, err
    # The process that has synthesized ends when it finds that nobody writes to it any more.
    wait_for(lambda: not processes_of(shell), 120, "processes are left")


def test_ctrl_c_while_a_worker_loads_its_model_leaves_nothing_running(shell: Shell) -> None:
    with shell.start("run", "clips/a.mp4", "--prompt", "What happens?") as process:
        assert process.stderr is not None
        while "loading the model" not in (line := process.stderr.readline()):
            assert line, "it ended, and was to be interrupted"
        assert any("cosmos_batch.worker" in command for command in processes_of(shell)), processes_of(shell)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out) == (130, ""), err
    assert err.endswith("Interrupted.\n") and "Traceback" not in err
    assert processes_of(shell) == []
    assert LocalCloud.find(Path(shell.variables["COSMOS_BATCH_HOME"])) is None


def processes_of(shell: Shell) -> list[str]:
    """Return the command lines of all processes that were given something below the shell's folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another person's
            command = (process / "cmdline").read_bytes()
            if bytes(shell.folder) in command + (process / "environ").read_bytes():
                found.append(command.replace(b"\0", b" ").decode())
    return found


def test_a_run_over_a_folder_is_answered_by_the_demos_model_and_says_so(in_cloud: Shell) -> None:
    assert "(answered by cosmos-batch/demo-reason)" in in_cloud.run("local", "status")[0]
    out, err = in_cloud.run("runs", "start", "clips/", "--prompt", "What happens?", "--name", "first", "--yes")
    assert out == "first\n" and NOTE in err
    out, _ = in_cloud.run("runs", "watch", "first")
    assert out.startswith("first SUCCEEDED\n  2 of 2 done (100 %), 0 failed")


def test_a_quiet_run_prints_the_document_alone(in_cloud: Shell) -> None:
    out, err = in_cloud.run("run", "clips/deep/b.png", "--prompt", "What is it?", "--quiet")
    assert json.loads(out)["inputFile"] == "b.png" and err == ""
    out, err = in_cloud.run("run", "clips/deep/b.png", "--prompt", "What is it?", "--json")
    assert json.loads(out)["document"]["inputFile"] == "b.png"
    assert "Using the local cloud that runs already" in err and NOTE in err and "inferred" in err


def test_the_run_outlives_its_cloud_until_it_is_discarded(in_cloud: Shell, shell: Shell) -> None:
    job = in_cloud.run("submit", "clips/a.mp4", "--prompt", "What happens?")[0].strip()
    in_cloud.run("wait", job)
    out, _ = in_cloud.run("local", "down")
    assert "Its jobs are kept (3)" in out and "Its runs are kept (1)" in out
    for here in (shell, in_cloud):  # a new shell, and the one that still points at the cloud
        [run] = json.loads(here.run("runs", "list", "--json")[0])
        assert (run["id"], run["state"], run["succeeded"]) == ("first", "SUCCEEDED", 2)
        assert "2 of 2 done (100 %)" in here.run("runs", "show", "first")[0]
    shell.run("runs", "export", "first", "--format", "csv", "--output", "answers.csv")
    with (shell.folder / "answers.csv").open(newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    assert set(rows) == {"a.mp4", "deep/b.png"}
    assert all(row["answer"] and row["model"] == "cosmos-batch/demo-reason" for row in rows.values())
    assert "red circle" in rows["a.mp4"]["answer"]
    assert json.loads(shell.run("result", job)[0])["model"] == "cosmos-batch/demo-reason"
    assert shell.run("local", "down", "--discard")[0].startswith("No local cloud runs")
    assert "You must specify a region" in shell.run("runs", "list", status=1)[1]
