"""Runs the console on the loopback interface, and opens it in the browser."""

import html
import json
import socket
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from cosmos_batch.console.application import make_application
from cosmos_batch.console.console import Console
from cosmos_batch.console.guard import Session
from cosmos_batch.contract.error import Failure

LOOPBACK = "127.0.0.1"
_CONNECTIONS = 64  # at the same time; a browser opens six


@contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """Yield a socket that listens on the loopback interface alone; on a free port if `port` is 0.

    Raises Failure (InvalidInput) where the port is taken.
    """
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((LOOPBACK, port))
        except OSError as error:
            raise Failure(
                "InvalidInput", f"Port {port} cannot be used: {error.strerror}.", "Name another --port."
            ) from error
        server.listen()
        yield server


def url_of(server: socket.socket, session: Session) -> str:
    """Return the URL with the token in its fragment, which browsers send to nobody."""
    return f"http://{LOOPBACK}:{server.getsockname()[1]}/#token={session.token}"


def make_server(console: Console, session: Session) -> uvicorn.Server:
    """Return the server of a console. `run` it with the socket on which `listening` listens."""
    config = uvicorn.Config(
        make_application(console, session),
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)


def open_browser(url: str, folder: Path) -> None:
    """Open a URL in the browser, by a file in `folder`, which other users of the machine cannot read.

    They could read the URL with its token in the list of processes.
    """
    page = folder / "open.html"
    page.touch(mode=0o600)
    script = f"location.replace({json.dumps(url)})"
    page.write_text(f"<!doctype html><title>{html.escape('Cosmos Batch')}</title><script>{script}</script>\n")
    webbrowser.open(page.as_uri())
