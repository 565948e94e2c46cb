"""Log lines of one load or request."""

import logging
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.engines.journal import Journal, plain_lines, timed


def test_progress_bars_and_colors_are_left_out() -> None:
    bar = "Loading:   0%|    | 0/4\rLoading: 100%|####| 4/4\n\x1b[32mdone\x1b[0m\n\n"
    assert plain_lines(bar) == ["Loading: 100%|####| 4/4", "done"]


@given(st.text())
def test_lines_hold_no_control_characters(text: str) -> None:
    for line in plain_lines(text):
        assert not set(line) & {"\x1b", "\r", "\n", "\x00", "\x08"}


def test_a_journal_collects_records_of_its_own_thread_only() -> None:
    journal, library = Journal(), logging.getLogger("some_library")
    with journal.listening("some_library"):
        library.warning("mine")
        other = threading.Thread(target=library.warning, args=("another's",))
        other.start()
        other.join()
    library.warning("later")
    assert [line.split("s  ")[1] for line in journal.lines] == ["some_library: WARNING: mine"]


def test_seconds_of_a_phase_are_written_down_unless_it_fails() -> None:
    seconds: dict[str, float] = {}
    with timed(seconds, "weights"):
        assert not seconds
    with pytest.raises(OSError), timed(seconds, "compile"):
        raise OSError
    assert seconds.keys() == {"weights"}
