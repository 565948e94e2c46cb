"""Measure the console's page in Chromium: search in it, scroll it under a trace, and seek in a video."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.support.large_video import SECONDS
from tests.support.served_page import ServedPage

SCROLL_STEPS = 240
STEP_PIXELS = 700
TYPING_LIMIT_MS = 60_000
JUMPS = 20  # how many places, far from each other, the browser jumps to
_MIB = 1 << 20
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)
_READ = re.compile(r"^rchar: (\d+)$", re.MULTILINE)

# Asks as the page does. Spaces make it another query, the result of which is not kept yet.
_ASK = """async ([query, spaces]) => {
  const search = query.search + " ".repeat(spaces);
  const values = new URLSearchParams({ ...query, search, offset: "0", limit: "100" });
  const began = performance.now();
  await (await fetch(`/api/views/folder/rows?${values}`)).json();
  return performance.now() - began;
}"""

# Enters a text, and returns the milliseconds until the first row has it; null where it has not within the limit.
_TYPE = """async ([text, limit]) => {
  const input = document.querySelector(".search input");
  const began = performance.now();
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(input, text);
  input.dispatchEvent(new Event("input", { bubbles: true }));
  while (!document.querySelector("a.row .answer")?.textContent.includes(text)) {
    if (performance.now() - began > limit) return null;
    await new Promise(requestAnimationFrame);
  }
  return performance.now() - began;
}"""

# Notes the time of each frame, and the most rows that the page has had.
_WATCH = """() => {
  window.watched = { frames: [], rows: 0 };
  const look = (time) => {
    window.watched.frames.push(time);
    window.watched.rows = Math.max(window.watched.rows, document.querySelectorAll(".list li").length);
    window.watching = requestAnimationFrame(look);
  };
  window.watching = requestAnimationFrame(look);
}"""
_END_WATCH = "() => { cancelAnimationFrame(window.watching); return window.watched; }"
_JUMP = """(share) => { const list = document.querySelector(".list"); list.scrollTop = share * list.scrollHeight; }"""

_LOADED = """() => new Promise((done) => {
  const video = document.querySelector("video");
  if (video.readyState >= 2) done();
  else video.addEventListener("loadeddata", done);
})"""

# Resolves when the frame at the player's time is on the screen, with the time of that frame.
_SEEK = """(seconds) => new Promise((done) => {
  const video = document.querySelector("video");
  const look = (_, frame) =>
    Math.abs(frame.mediaTime - seconds) < 0.2 ? done(frame.mediaTime) : video.requestVideoFrameCallback(look);
  video.requestVideoFrameCallback(look);
  video.currentTime = seconds;
})"""


@dataclass(frozen=True)
class Scrolling:
    """The lengths of the page's tasks and the frame rate that a trace recorded while the list was scrolled."""

    tasks_ms: list[float]
    frames_per_second: float
    rows: int
    heap_mib: float


@contextmanager
def opened(browser: Browser, served: ServedPage) -> Iterator[Page]:
    """Yield the page that a process serves, opened in the browser."""
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    page.goto(f"{served.url}/#token={served.token}")
    yield page
    page.close()


def answer_ms(page: Page, query: dict[str, str], spaces: int) -> float:
    """Return the milliseconds until the page has the rows of a query that was not asked before."""
    return float(page.evaluate(_ASK, [query, spaces]))


def typed_ms(page: Page, text: str, limit_ms: float = TYPING_LIMIT_MS) -> float:
    """Return the milliseconds from the last letter of a text until the row that has it is the first.

    Raises TimeoutError where that takes longer than the limit.
    """
    took = page.evaluate(_TYPE, [text, limit_ms])
    if took is None:
        raise TimeoutError(f"No row has shown {text!r} as the first within {limit_ms / 1000:g} s of typing it.")
    return float(took)


def scroll(browser: Browser, page: Page) -> Scrolling:
    """Scroll down the list with the wheel, then jump to places all over it, and return what a trace recorded."""
    page.evaluate("document.querySelector('.list').scrollTop = 0")
    page.mouse.move(600, 500)
    browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
    page.evaluate(_WATCH)
    for _ in range(SCROLL_STEPS):
        page.mouse.wheel(0, STEP_PIXELS)
    for number in range(JUMPS):
        page.evaluate(_JUMP, number * 7 % JUMPS / JUMPS)
        page.wait_for_timeout(50)
    watched = page.evaluate(_END_WATCH)
    tasks = main_thread_tasks(browser.stop_tracing())
    frames = watched["frames"]
    rate = 1000 * (len(frames) - 1) / (frames[-1] - frames[0])
    return Scrolling(tasks, rate, watched["rows"], _heap_mib(page))


def main_thread_tasks(trace: bytes) -> list[float]:
    """Return the milliseconds of the tasks of the page's main thread, the longest first."""
    events = json.loads(trace)["traceEvents"]
    mains = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = [
        event["dur"] / 1000
        for event in events
        if event["name"].endswith("RunTask") and event["ph"] == "X" and (event["pid"], event["tid"]) in mains
    ]
    return sorted(tasks, reverse=True)


def _heap_mib(page: Page) -> float:
    """Return the memory that the page's scripts use after garbage collection, in MiB."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used: int = session.send("Runtime.getHeapUsage")["usedSize"]
    return used / _MIB


def seek_to_the_end(page: Page, served: ServedPage) -> tuple[float, int]:
    """Open the first document and seek to the last second of its video.

    Returns the time of the frame that is then shown, and the bytes that the server has read since.
    """
    page.locator("a.row").first.wait_for()
    before = _bytes_read(served)
    page.locator("a.row").first.click()
    page.locator("video").wait_for()
    page.evaluate(_LOADED)
    shown = float(page.evaluate(_SEEK, SECONDS - 1))
    return shown, _bytes_read(served) - before


def peak_mib(served: ServedPage) -> float:
    """Return the server's peak memory in MiB."""
    found = _PEAK.search(_of_process(served, "status"))
    assert found is not None
    return int(found[1]) / 1024


def _bytes_read(served: ServedPage) -> int:
    found = _READ.search(_of_process(served, "io"))
    assert found is not None
    return int(found[1])


def _of_process(served: ServedPage, file: str) -> str:
    return Path(f"/proc/{served.process.pid}/{file}").read_text(encoding="utf-8")
