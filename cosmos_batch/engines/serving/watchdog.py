"""Whether a server goes on while it is asked. A core of vLLM that hangs is never missed by its own `/health`."""

import contextlib
from collections.abc import Callable

import httpx2

from cosmos_batch.engines.serving.server import Server

LOOK_SECONDS = 10
# In a row, without a sign of life: five minutes, or ten where it does not even answer. The longest silence of a sound
# one is the build of kernels that a request is the first to need; two minutes for all of FlashInfer's. A long prompt is
# read in steps of seconds. Looks are counted and not time, which goes on while the machine sleeps.
LOOKS = 30


def watch(server: Server, is_asked: Callable[[], bool], sign: Callable[[httpx2.Client], str | None]) -> None:
    """Stop a server that hangs, so that what was asked of it breaks off; returns when the server has ended.

    Life is a change in its `sign`, which is None where it does not answer.
    """
    seen, silent = "", 0
    with _client(server) as client:
        while not server.wait(LOOK_SECONDS):
            now = sign(client)
            silent = silent + 1 if is_asked() and now in (seen, None) else 0
            seen = now or seen
            if silent == LOOKS:
                server.stop(f"hung for {LOOKS * LOOK_SECONDS:g} s and was stopped")


def _client(server: Server) -> httpx2.Client:
    transport = httpx2.HTTPTransport(uds=str(server.socket), verify=False)
    return httpx2.Client(transport=transport, base_url="http://engine", timeout=LOOK_SECONDS)


def counters(client: httpx2.Client) -> str | None:
    """What vLLM counts, tokens and memory that a prompt fills step by step, without what Python and its web server do;
    None where it does not answer."""
    with contextlib.suppress(httpx2.TransportError):
        return "\n".join(line for line in client.get("/metrics").text.splitlines() if line.startswith("vllm:"))
    return None
