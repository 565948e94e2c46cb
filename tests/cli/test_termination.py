"""An interrupt ends a command, wherever in its code it arrives."""

import signal
import time

import pytest

from cosmos_batch.cli import main as program
from cosmos_batch.cli.errors import INTERRUPTED


class InterruptedWhileFinalized:
    """An object during whose finalization Ctrl-C comes."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_in_a_finalizer_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*_: object, **__: object) -> int:
        InterruptedWhileFinalized()
        time.sleep(60)
        return 0

    monkeypatch.setattr(program.group, "main", command)
    assert program.main([]) == INTERRUPTED
    assert "Exception ignored" not in capsys.readouterr().err
