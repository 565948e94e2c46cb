"""The commands on jobs through the installed program: exit statuses, what goes to which stream, and interrupts."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.deployed_app import App, wait_for
from tests.support.installed_program import Shell

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def shell(app: App, picture: Path) -> Shell:
    """Provide a shell that points at the app, in a folder with an image."""
    folder = app.folder / "files"
    folder.mkdir()
    (folder / "a.png").write_bytes(picture.read_bytes())
    return Shell(folder, {**app.cloud.environment, "COSMOS_BATCH_HOME": str(app.folder / "home")})


@pytest.fixture(scope="module")
def answered(shell: Shell) -> str:
    """Provide the id of a job that has an answer."""
    out, err = shell.run("submit", "a.png", "--prompt", "What is it?")
    assert len(out.splitlines()) == 1 and err == "", "the id alone"
    assert shell.run("wait", out.strip()) == (f"{out.strip()} SUCCEEDED\n", "")
    return out.strip()


@pytest.fixture(scope="module")
def failed(shell: Shell) -> str:
    """Provide the id of a job that has failed."""
    job = shell.run("submit", "a.png", "--prompt", json.dumps({"raise": "broken"}))[0].strip()
    out, err = shell.run("wait", job, status=1)
    assert out == f"{job} FAILED\n" and "broken" in err
    return job


@pytest.fixture
def running(shell: Shell, tmp_path: Path) -> Iterator[str]:
    """Provide the id of a job that goes on until the test has ended."""
    prompt = json.dumps({"until": str(tmp_path / "go"), "text": "At last."})
    job = shell.run("submit", "a.png", "--prompt", prompt)[0].strip()
    wait_for(lambda: state(shell, job) == "RUNNING", 120, "no worker took it")
    yield job
    (tmp_path / "go").touch()


def state(shell: Shell, job: str) -> str:
    [line] = json.loads(shell.run("status", job, "--json")[0])
    return str(line["state"])


def test_a_document_is_all_that_goes_to_standard_output(shell: Shell, answered: str) -> None:
    out, err = shell.run("result", answered)
    assert json.loads(out)["result"] == "What is it?" and err == ""
    assert shell.run("result", answered, "--text") == ("What is it?\n", "")
    assert shell.run("result", answered, "--output", "saved/") == (f"saved/{document_name(shell)}\n", "")


def document_name(shell: Shell) -> str:
    [path] = (shell.folder / "saved").iterdir()
    return path.name


def test_an_error_goes_to_standard_error(shell: Shell, failed: str) -> None:
    out, err = shell.run("result", failed, status=1)
    assert out == "" and err.startswith("error: EngineFailed: ")
    out, err = shell.run("submit", "none.png", status=2)
    assert out == "" and "none.png does not exist" in err
    out, err = shell.run("result", "nothing", status=1)
    assert out == "" and "There is no job nothing here" in err


def test_a_table_in_a_pipe_has_no_control_characters(shell: Shell, answered: str, failed: str) -> None:
    out, err = shell.run("status")
    assert {answered, failed} <= set(out.split()) and "\x1b" not in out and err == ""
    assert answered in shell.run("logs", answered)[0]


def test_a_reader_that_goes_away_is_no_error(shell: Shell, answered: str) -> None:
    """`head -1` in `cosmos-batch status | head -1` closes the pipe before the command has printed everything."""
    with shell.start("status", "--limit", "100", "--json") as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_a_job_that_goes_on_has_a_status_of_its_own(shell: Shell, running: str) -> None:
    out, err = shell.run("result", running, status=3)
    assert out == "" and "still under way: the model is answering" in err
    assert "Not ended after 0 s" in shell.run("wait", running, "--timeout", "0", status=3)[1]
    assert "RUNNING" in shell.run("status", running)[0]
    assert shell.run("retry", running, status=3)[0] == ""


# tests/cli/test_main.py sends SIGTERM to the command line within one process.
@pytest.mark.parametrize(
    ("sent", "status"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_command_that_waits_can_be_interrupted_and_the_job_goes_on(
    sent: signal.Signals, status: int, shell: Shell, running: str
) -> None:
    with shell.start("result", running, "--wait") as process:
        assert process.stderr is not None
        while "the model is answering" not in process.stderr.readline():
            pass
        process.send_signal(sent)
        out, err = process.communicate()
    assert (process.returncode, out) == (status, "")
    assert err.endswith("Interrupted.\n") and "Traceback" not in err
    assert state(shell, running) == "RUNNING"


def test_a_job_is_cancelled_and_asked_again(shell: Shell, running: str, failed: str) -> None:
    assert shell.run("cancel", running)[0].split() == [running, "CANCELLED"]
    assert "Cancelled" in shell.run("result", running, status=1)[1]
    again = shell.run("retry", failed)[0].strip()
    assert again != failed and shell.run("wait", again, status=1)[0] == f"{again} FAILED\n"


def test_a_request_without_a_deployed_generator_is_refused(shell: Shell) -> None:
    out, err = shell.run("generate", "--submit", "--prompt", "Rain.", status=2)
    assert out == "" and "No generator for it is deployed here" in err
