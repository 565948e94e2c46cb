"""Log lines of one load or request."""

import logging
import threading

from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.engines.journal import Journal, plain_lines


def test_progress_bars_and_colours_are_left_out() -> None:
    bar = "Loading:   0%|    | 0/4\rLoading: 100%|####| 4/4\n\x1b[32mdone\x1b[0m\n\n"
    assert plain_lines(bar) == ["Loading: 100%|####| 4/4", "done"]


@given(st.text())
def test_lines_are_plain_whatever_a_library_writes(text: str) -> None:
    for line in plain_lines(text):
        assert not set(line) & {"\x1b", "\r", "\n", "\x00", "\x08"}


def test_a_journal_takes_its_own_threads_records_only() -> None:
    journal, library = Journal(), logging.getLogger("some_library")
    with journal.listening("some_library"):
        library.warning("mine")
        other = threading.Thread(target=library.warning, args=("another's",))
        other.start()
        other.join()
    library.warning("later")
    assert [line.split("s  ")[1] for line in journal.lines] == ["some_library: WARNING: mine"]
