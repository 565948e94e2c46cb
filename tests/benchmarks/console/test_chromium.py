"""The counts of the console's benchmark, here over a hundredth of its documents. Only the benchmark measures times."""

import pytest

from benchmarks.console.browser import typed_ms
from benchmarks.console.chromium import CODE_BYTES, PAGE_MIB, ROWS, SEEK_BYTES, SERVER_MIB, measure
from tests.support.browser import chromium, needs_chromium
from tests.support.large_video import SECONDS

# Chromium draws without a GPU: beside other tests that takes minutes.
pytestmark = [needs_chromium, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_memory_and_traffic_of_the_page_and_its_server_have_limits() -> None:
    counted = {name: value for row in measure(documents=1_000) for name, value in row.raw.items()}
    assert 0 < counted["rows"] <= ROWS
    assert counted["server_peak_mib"] <= SERVER_MIB and counted["page_heap_mib"] <= PAGE_MIB
    assert counted["bytes"] <= CODE_BYTES
    assert counted["shown_seconds"] >= SECONDS - 1.2
    assert counted["bytes_read"] <= SEEK_BYTES
    assert counted["longest_tasks_ms"] and all(counted["answer_ms"].values())


def test_a_search_that_never_finds_its_row_ends_the_measurement() -> None:
    with chromium() as browser:
        page = browser.new_page()
        page.set_content('<div class="search"><input></div>')
        with pytest.raises(TimeoutError, match="No row has shown 'a circle'"):
            typed_ms(page, "a circle", limit_ms=1)
