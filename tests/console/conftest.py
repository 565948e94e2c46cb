"""A console in the process of the test, and a client of it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from filelock import FileLock
from starlette.testclient import TestClient

from cosmos_batch.console.application import make_application
from cosmos_batch.console.console import FOLDER, Console
from cosmos_batch.console.guard import Session
from cosmos_batch.console.scope import Scope
from tests.support.browser import read_view

ROOT = Path(__file__).resolve().parents[2]
BUILD_CONSOLE = ROOT / "scripts" / "build_console.py"
WHY_NOT_BUILT = "npm cannot reach a registry, so the console's page is not built"
UNREACHABLE = ("ENOTFOUND", "ECONNREFUSED", "ETIMEDOUT", "EAI_AGAIN", "ECONNRESET", "npm is not on the path")
PORT = 8700
URL = f"http://127.0.0.1:{PORT}"

Open = Callable[[Path], TestClient]


@pytest.fixture(scope="session")
def built_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the page with npm once for all processes of the tests, and provide the folder of what was built."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    place = shared / "built_page.txt"
    with FileLock(shared / "built_page.lock"):
        if not place.exists():
            place.write_text(_build_page())
        return Path(place.read_text())


def _build_page() -> str:
    """Return the path of the folder of what npm built, or skip the test where npm has no way to its packages."""
    ran = subprocess.run([sys.executable, BUILD_CONSOLE, "--only"], capture_output=True, text=True)
    if any(code in ran.stderr for code in UNREACHABLE):
        pytest.skip(WHY_NOT_BUILT)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.fixture
def open_console() -> Iterator[Open]:
    """Provide a function that opens a folder or file, and returns a client that has exchanged its token."""
    with ExitStack() as stack:

        def opened(path: Path) -> TestClient:
            console = stack.enter_context(Console.of_folder(Scope.of(path)))
            read_view(console, FOLDER)
            session = Session(PORT)
            client = stack.enter_context(TestClient(make_application(console, session), base_url=URL))
            assert client.post("/api/session", json={"token": session.token}).status_code == 204
            return client

        yield opened


@pytest.fixture(scope="session")
def axe(built_page: Path) -> str:
    """Provide the program of axe-core, which npm has installed to build the page."""
    return (built_page.parent / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
