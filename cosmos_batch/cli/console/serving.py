"""Serve the console to this machine until Ctrl-C is pressed."""

from contextlib import suppress
from typing import TYPE_CHECKING

from cosmos_batch.cli.messages import inform, warn

if TYPE_CHECKING:
    from cosmos_batch.console.console import Console


def serve(console: "Console", what: str, port: int, no_browser: bool) -> None:
    """Print the URL after `what` is shown there, open it in the browser, and serve until Ctrl-C is pressed."""
    from cosmos_batch.console.guard import Session
    from cosmos_batch.console.server import listening, make_server, open_browser, url_of

    with listening(port) as socket:
        session = Session(socket.getsockname()[1])
        url = url_of(socket, session)
        warn(f"{what}: {url}")
        inform("Ctrl-C ends it.")
        if not no_browser:
            open_browser(url, console.scratch)
        # Where a shell's script has made Ctrl-C ignored, the server ends without this exception.
        with suppress(KeyboardInterrupt):
            make_server(console, session).run(sockets=[socket])
        inform("Ended.")
