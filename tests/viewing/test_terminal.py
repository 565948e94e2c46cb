"""A picture is shown in a terminal that can show pictures, and nothing is printed anywhere else."""

import io
import sys
from pathlib import Path

import pytest
from PIL import Image
from textual_image import renderable

from cosmos_batch.viewing.terminal import show_picture

SIXEL = "\x1bP"


class Terminal(io.StringIO):
    """A fake terminal, which keeps what is written to it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """Provide a small picture."""
    Image.new("RGB", (16, 16), "red").save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


def test_a_terminal_with_pictures_shows_it(picture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(renderable, "Image", renderable.SixelImage)
    monkeypatch.setattr(sys, "stdout", terminal)

    assert show_picture(picture)
    assert SIXEL in terminal.getvalue()


def test_a_terminal_without_pictures_shows_nothing(picture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(renderable, "Image", renderable.HalfcellImage)
    monkeypatch.setattr(sys, "stdout", terminal)

    assert not show_picture(picture)
    assert terminal.getvalue() == ""


def test_output_to_a_file_has_no_picture(picture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not show_picture(picture)
    assert capsys.readouterr().out == ""
