"""What the benchmark of the console counts, here over a hundredth of its documents. Times are the benchmark's alone."""

from benchmarks.console import CODE_BYTES, PAGE_MIB, ROWS, SEEK_BYTES, SERVER_MIB, measure
from tests.support.browser import needs_chromium
from tests.support.large_video import SECONDS

pytestmark = needs_chromium


def test_the_page_and_its_server_take_little_however_much_there_is() -> None:
    counted = {name: value for row in measure(documents=1_000) for name, value in row.raw.items()}
    assert 0 < counted["rows"] <= ROWS
    assert counted["server_peak_mib"] <= SERVER_MIB and counted["page_heap_mib"] <= PAGE_MIB
    assert counted["bytes"] <= CODE_BYTES
    assert counted["shown_seconds"] >= SECONDS - 1.2
    assert counted["bytes_read"] <= SEEK_BYTES
    assert counted["longest_tasks_ms"] and all(counted["answer_ms"].values())
