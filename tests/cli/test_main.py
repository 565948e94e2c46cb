"""The command's help, errors, exit statuses and speed."""

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from time import sleep

import boto3
import click
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, UnauthorizedSSOTokenError
from botocore.stub import Stubber

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli import local_deployment
from cosmos_batch.cli.command_line import CosmosCommand, usage_of
from cosmos_batch.cli.errors import CliError, StillRunning, WrongCall
from cosmos_batch.cli.main import COMMANDS, main
from cosmos_batch.cli.messages import Verbosity, verbosity
from cosmos_batch.console.run_backend import RefusalError
from cosmos_batch.contract.error import Failure
from cosmos_batch.local.cloud import LocalCloudError
from cosmos_batch.planning.configuration import ConfigError
from tests.support.command_line import commands, parse
from tests.support.installed_program import Shell

ALL = commands()


def test_help_lists_every_command_without_importing_it() -> None:
    script = "import sys\nfrom cosmos_batch.cli.main import main\nmain(['--help'])\nprint(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    help_text, _, loaded = output.rstrip().rpartition("\n")
    assert all(f"\n  {name}" in help_text for name in COMMANDS)
    assert not {"boto3", "pydantic", "rich", "moto", "torch", "cosmos_batch.cli.commands.run"} & set(loaded.split())


@pytest.mark.parametrize("name", ALL)
def test_help_of_a_command_has_examples_that_parse(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ALL[name]
    assert isinstance(command, CosmosCommand)
    assert main([*name.split()[1:], "--help"]) == 0
    help_text = capsys.readouterr().out
    assert command.help and command.help.splitlines()[0].split()[0] in help_text
    assert command.examples, f"{name} has no example"
    for example in command.examples:
        assert f"  {example}\n" in help_text, "an example stands on a line of its own"
        line = example.partition(">")[0].removeprefix('eval "$(').removesuffix(')"')
        assert name in line
        parse(usage_of(line[line.index("cosmos-batch") :]))


@pytest.mark.parametrize("arguments", [["--help"], ["completion", "bash"]])
def test_a_reader_that_goes_away_is_no_error(arguments: list[str], tmp_path: Path) -> None:
    """In `cosmos-batch run --help | head -3`, Click alone would exit with 1, and Python would print an exception."""
    with Shell(tmp_path).start(*arguments) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("cosmos-batch 0.")


@pytest.mark.parametrize("arguments", [["fly"], ["run"], ["run", "clip.mp4", "--nonsense"], ["status", "--limit"]])
def test_a_wrong_call_has_a_status_of_its_own(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "Error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "usage"),
    [
        (["-h"], "[OPTIONS] COMMAND"),
        (["help"], "[OPTIONS] COMMAND"),
        (["status", "-h"], "status [OPTIONS]"),
        (["help", "status"], "status [OPTIONS]"),
        (["help", "local", "up"], "local up [OPTIONS]"),
        (["local", "down", "-h"], "local down [OPTIONS]"),
        (["runs", "help", "list"], "runs list [OPTIONS]"),
        (["runs", "list", "-h"], "runs list [OPTIONS]"),
    ],
)
def test_help_is_printed_however_it_is_asked_for(
    typed: list[str], usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(typed) == 0
    assert capsys.readouterr().out.startswith(f"Usage: cosmos-batch {usage}")


@pytest.mark.parametrize("typed", [["--quiet", "completion", "bash"], ["completion", "--quiet", "bash"]])
def test_quiet_stands_before_or_after_the_command(typed: list[str]) -> None:
    assert main(typed) == 0
    assert verbosity() == Verbosity.QUIET


@pytest.mark.parametrize(("typed", "meant"), [(["subimt"], "submit"), (["runs", "strat"], "start")])
def test_a_misspelled_command_is_told_the_nearest_one(
    typed: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(typed) == 2
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err


def test_options_stand_in_sections_with_the_general_ones_last(capsys: pytest.CaptureFixture[str]) -> None:
    """Each section has its own options, so that a person finds them among two dozen others."""
    assert main(["run", "--help"]) == 0
    sections = dict(re.findall(r"^(\S[^\n]*):\n((?:  .*\n|\n)+)", capsys.readouterr().out, re.MULTILINE))
    assert list(sections) == [
        "Options",
        "How to answer (docs/reasoner.md)",
        "Episodes of a LeRobot data set (docs/command-line.md)",
        "Where results are saved",
        "General",
        "Examples",
    ]
    homes = {"--prompt": "Options", "--seed": "How", "--camera": "Episodes", "--force": "Where", "--quiet": "General"}
    for name, section in homes.items():
        found = [title for title, text in sections.items() if re.search(rf"^  .*{name}\b", text, re.MULTILINE)]
        assert [title for title in found if title != "Examples"] == [
            title for title in sections if title.startswith(section)
        ]


def test_an_option_that_is_misspelt_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "clip.mp4", "--promt", "x"]) == 2
    assert "--prompt" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "parts"),
    [
        (CliError("It is empty.", "Fill it."), 1, ["error: It is empty.", "Fill it."]),
        (WrongCall("It is empty.", "Fill it."), 2, ["error: It is empty.", "Fill it."]),
        (StillRunning("It runs.", "Wait."), 3, ["error: It runs."]),
        (Failure("ModelUnavailable", "No licence.", "Accept it."), 1, ["ModelUnavailable: No licence.", "Accept it."]),
        (Failure("InvalidInput", "No frames.", "Send some."), 2, ["InvalidInput: No frames.", "Send some."]),
        (ConfigError("app.x: unknown field"), 2, ["app.x: unknown field"]),
        (LocalCloudError("It did not start."), 1, ["It did not start."]),
        (RefusalError("S3 refuses it.\nAsk for it."), 1, ["error: S3 refuses it.\nAsk for it."]),
        (NoCredentialsError(), 1, ["Unable to locate credentials", "cosmos-batch local up --export"]),
        (
            EndpointConnectionError(endpoint_url="http://localhost:1"),
            1,
            ["http://localhost:1", "cosmos-batch local up"],
        ),
        (
            ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "DescribeStacks"),
            1,
            ["AccessDenied", "ViewerPolicyArn", "docs/security.md"],
        ),
        (ClientError({"Error": {"Code": "ExpiredToken", "Message": "no"}}, "ListRuns"), 1, ["aws sso login"]),
        (ClientError({"Error": {"Code": "400", "Message": "Bad Request"}}, "HeadObject"), 1, ["400", "aws sso login"]),
        (UnauthorizedSSOTokenError(), 1, ["expired", "aws sso login"]),
        (ClientError({"Error": {"Code": "InternalError", "Message": "no"}}, "ListRuns"), 1, ["InternalError"]),
        (OSError(errno.ENOSPC, "No space left on device"), 1, ["error: No space left on device.", "Free some space"]),
        (
            PermissionError(errno.EACCES, "Permission denied", "x/y"),
            1,
            ["error: x/y: Permission denied.", "permissions"],
        ),
    ],
)
def test_an_error_becomes_a_message_and_a_status(
    error: Exception, status: int, parts: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(deployments, "find", fail)
    assert main(["status"]) == status
    printed = capsys.readouterr().err
    assert all(part in printed for part in parts)
    assert "Traceback" not in printed
    assert main(["status", "--verbose"]) == status
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(("code", "remedy"), [("AccessDenied", "OperatorPolicyArn"), ("ExpiredToken", "aws sso login")])
def test_an_upload_that_s3_refuses_has_the_remedy_of_its_cause(
    code: str, remedy: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.png").write_bytes(b"content")
    s3 = boto3.client("s3", aws_access_key_id="key", aws_secret_access_key="secret", region_name="us-east-1")
    stubber = Stubber(s3)
    stubber.add_client_error("put_object", code)
    stubber.activate()
    monkeypatch.setattr(deployments, "find", lambda: s3.upload_file(str(tmp_path / "a.png"), "assets", "a.png"))
    assert main(["status"]) == 1
    printed = capsys.readouterr().err
    assert "Failed to upload" in printed and code in printed and remedy in printed


def test_a_full_disk_for_the_output_is_explained(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "cosmos_batch.cli", "completion", "bash"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ran.returncode != 0 and "No space left on device" in ran.stderr and "Traceback" not in ran.stderr


def test_a_name_that_no_file_can_have_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", f"{'a' * 300}.json"]) == 1
    assert "File name too long.\nChoose a shorter name." in capsys.readouterr().err


def test_a_defect_of_this_program_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployments, "find", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["status"])


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, click.Abort])
def test_an_interrupt_is_no_error(
    interrupt: type[BaseException], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def raise_it() -> None:
        raise interrupt

    monkeypatch.setattr(deployments, "find", raise_it)
    assert main(["status"]) == 130
    assert capsys.readouterr().err.strip() == "Interrupted."


@pytest.mark.parametrize("ignores_interrupts", [False, True])
def test_sigterm_ends_a_command_as_an_interrupt(
    ignores_interrupts: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shell's script starts what runs in its background with interrupts ignored."""
    cleaned: list[str] = []

    def find() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            sleep(60)
        finally:
            cleaned.append("up")

    monkeypatch.setattr(deployments, "find", find)
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    if ignores_interrupts:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert main(["status"]) == 143
    finally:
        signal.signal(signal.SIGINT, handlers[0])
    assert (capsys.readouterr().err.strip(), cleaned) == ("Interrupted.", ["up"])
    assert signal.getsignal(signal.SIGTERM) == handlers[1], "the handler of before is there again"


@pytest.mark.parametrize("command", [["run"], ["demo"]])
def test_a_bad_file_is_refused_before_anything_starts(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FILE", "no such.mp4")
    monkeypatch.setattr(local_deployment, "_own_deployment", lambda *_: pytest.fail("a cloud was started"))
    monkeypatch.setattr(local_deployment, "start_local_cloud", lambda *_: pytest.fail("a cloud was started"))
    assert main([*command, *(["no such.mp4"] if command == ["run"] else [])]) == 2
    assert "no such.mp4 does not exist" in capsys.readouterr().err


def test_a_shell_without_a_region_is_told_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    assert main(["status"]) == 1
    printed = capsys.readouterr().err
    assert "Partial credentials" in printed and "Sign in to AWS" in printed
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert main(["status"]) == 1
    printed = capsys.readouterr().err
    assert "Set AWS_REGION" in printed and "cosmos-batch local up --export" in printed
    monkeypatch.setenv("AWS_PROFILE", "misspelled")
    assert main(["status"]) == 1
    printed = capsys.readouterr().err
    assert "misspelled" in printed and "Correct AWS_PROFILE" in printed
