"""The command as a person meets it: its options, its errors, its speed."""

import argparse
import subprocess
import sys
import time
from importlib import import_module

import pytest
from boto3.exceptions import S3UploadFailedError
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.main import main, parser
from cosmos_batch.contract.error import Failure
from cosmos_batch.local.cloud import LocalCloudError
from cosmos_batch.planning.configuration import ConfigError


def commands(of: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """A parser and all those below it."""
    below = [action for action in of._actions if isinstance(action, argparse._SubParsersAction)]
    return [of, *(one for action in below for child in action.choices.values() for one in commands(child))]


def test_every_command_has_its_function() -> None:
    named = [one.get_default("command") for one in commands(parser()) if one.get_default("command")]
    assert len(named) == 13
    for command in named:
        module, _, function = command.partition(":")
        assert callable(getattr(import_module(f"cosmos_batch.cli.commands.{module}"), function))


def test_help_is_instant() -> None:
    script = "import sys, cosmos_batch.cli.main as m; m.parser(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"boto3", "pydantic", "rich", "moto", "torch", "cosmos_batch.cli.commands.run"} & set(loaded)


def test_no_command_is_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "parts"),
    [
        (CliError("It is empty.", "Fill it."), ["error: It is empty.", "Fill it."]),
        (Failure("ModelUnavailable", "No licence.", "Accept it."), ["ModelUnavailable: No licence.", "Accept it."]),
        (ConfigError("app.x: unknown field"), ["app.x: unknown field"]),
        (LocalCloudError("It did not start."), ["It did not start."]),
        (NoCredentialsError(), ["Unable to locate credentials", "cosmos-batch local up --export"]),
        (EndpointConnectionError(endpoint_url="http://localhost:1"), ["http://localhost:1", "cosmos-batch local up"]),
        (S3UploadFailedError("Failed to upload a to b/c: AccessDenied"), ["Failed to upload", "AccessDenied"]),
        (ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "DescribeStacks"), ["AccessDenied"]),
    ],
)
def test_errors_are_for_persons(
    error: Exception, parts: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(deployments, "find", fail)
    assert main(["status"]) == 1
    said = capsys.readouterr().err
    assert all(part in said for part in parts)
    assert "Traceback" not in said


def test_a_fault_of_ours_is_not_dressed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployments, "find", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["status"])


def test_an_interrupt_is_no_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(deployments, "find", interrupt)
    assert main(["status"]) == 130
    assert capsys.readouterr().err == "Interrupted.\n"


@pytest.mark.parametrize("command", [["run"], ["demo"]])
def test_a_bad_file_is_refused_before_anything_starts(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FILE", "no such.mp4")
    began = time.monotonic()
    assert main([*command, *(["no such.mp4"] if command == ["run"] else [])]) == 1
    assert "no such.mp4 does not exist" in capsys.readouterr().err
    assert time.monotonic() - began < 1
