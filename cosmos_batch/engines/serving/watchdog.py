"""Stopping a server that hangs: it has requests and makes no progress on them."""

from collections.abc import Callable

import httpx2

from cosmos_batch.engines.serving.server import Server

POLL_SECONDS = 10
# Polls in a row without progress before a server counts as hung: five minutes, or ten if each poll times out. The
# longest pause of a healthy server is a kernel that a request is the first to compile: two minutes for all of
# FlashInfer's. Polls are counted and not time, because a clock goes on while the machine sleeps.
SILENT_POLLS = 30


def watch(server: Server, has_requests: Callable[[], bool], progress: Callable[[httpx2.Client], str | None]) -> None:
    """Stop the server if it hangs, so that the requests to it break off; return when the server has ended.

    A server hangs if it has requests and `progress` returns the same text, or None, `SILENT_POLLS` times in a row.
    """
    last, silent = "", 0
    with server.address.client(timeout=POLL_SECONDS) as client:
        while not server.wait(POLL_SECONDS):
            now = progress(client)
            silent = silent + 1 if has_requests() and now in (last, None) else 0
            last = now or last
            if silent == SILENT_POLLS:
                server.stop(f"hung for {SILENT_POLLS * POLL_SECONDS:g} s and was stopped")
