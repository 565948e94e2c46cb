"""Chromium, in which tests open pages; where it is not installed they are skipped, and `.ci/run` fails for it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, sync_playwright

from cosmos_batch.console.application import Console
from cosmos_batch.console.guard import Session
from cosmos_batch.console.scope import Scope
from cosmos_batch.console.server import listening, make_server, url_of

CHROMIUM = shutil.which("chromium")
WHY_SKIPPED = "Chromium is not installed: make chromium says why"

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason=WHY_SKIPPED)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium without a window.

    While it runs, the thread has a running event loop: `asyncio.run` fails in it.
    """
    with sync_playwright() as playwright:
        # Without a sandbox, because tests run as root in containers; they open pages of this project alone.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def served(path: Path) -> Iterator[str]:
    """Serve a folder or file in a thread, and yield the URL to open. All of it is read before."""
    with listening(0) as socket, Console(Scope.of(path)) as console:
        console.scan.wait()
        session = Session(socket.getsockname()[1])
        server = make_server(console, session)
        thread = Thread(target=server.run, args=([socket],))
        thread.start()
        try:
            yield url_of(socket, session)
        finally:
            server.should_exit = True
            thread.join()
