"""The engine for a remote server, with the real server at a URL."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.generator.vllm_omni import endpoint as vllm_omni_endpoint
from cosmos_batch.engines.generator.vllm_omni.endpoint import OmniEndpointEngine
from cosmos_batch.engines.job_files import GenerationFiles
from tests.engines.conftest import make_job
from tests.support.generations import settled
from tests.support.generator_jobs import ACTIONS, FEW, ROWS, TABLE, check


@pytest.fixture
def url(engine: Any) -> Iterator[str]:
    """Forward a TCP port to the server's Unix socket, and return its URL."""
    socket = engine._served._server.address.socket
    loop = asyncio.new_event_loop()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(socket)
        await asyncio.gather(forward(reader, server_writer), forward(server_reader, writer))

    server = loop.run_until_complete(asyncio.start_server(connect, "127.0.0.1", 0))
    threading.Thread(target=loop.run_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    loop.call_soon_threadsafe(loop.stop)


@pytest.mark.parametrize(
    "parameters",
    [
        {"mode": "t2v", "sound": True, **FEW},
        {"mode": "forward_dynamics", "action": ROWS, **ACTIONS},
        {"controls": {"edge": {}}, **TABLE},
    ],
    ids=["t2v", "forward_dynamics", "transfer"],
)
def test_endpoint_generates_each_kind_of_request(
    url: str, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parameters: dict[str, Any]
) -> None:
    medium = None if parameters.get("mode") == "t2v" else clip
    monkeypatch.setattr(vllm_omni_endpoint, "generation_files", lambda *_: GenerationFiles(medium, {}))
    generation = settled(parameters, "video" if medium else None, guardrails=False, engine="vllm-omni")
    engine = OmniEndpointEngine(Endpoint(url=url), lambda: None)
    engine.load(tmp_path)
    result = asyncio.run(
        engine.run(make_job("clip.mp4").model_copy(update={"generation": generation}), tmp_path)
    ).generation
    engine.close()
    check(tmp_path / "output.mp4", result)


def test_endpoint_without_the_model_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"has no model 'nvidia/Cosmos3-Super'\. It serves: cosmos"):
        OmniEndpointEngine(Endpoint(url=url, model="nvidia/Cosmos3-Super"), lambda: None).load(tmp_path)
