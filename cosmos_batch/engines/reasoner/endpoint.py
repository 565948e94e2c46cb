"""The reasoner engine for a user's own server that speaks OpenAI's chat completions: a NIM container, vLLM, a service.

Files are decoded, cut, sampled and scaled here, as for every engine, and sent inside of the request, because the server
cannot read our files. Images are sent as PNG, clips as MP4 with exactly the sampled frames. H.264 changes the
frames a little, which a note in the answer says.
"""

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
from PIL import Image

from cosmos_batch.catalogue.engines import ENDPOINT_ENGINE
from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer
from cosmos_batch.engines.data_urls import SENT_AS_H264, data_url
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.reasoner.chat_request import ChatRequest, CheckpointInfo, prepare_request
from cosmos_batch.engines.reasoner.chat_response import drop_refused_schema, is_bad_request, parse_answer
from cosmos_batch.engines.reasoner.media_input import DecodedMedia
from cosmos_batch.engines.serving.dialect import dialect_of
from cosmos_batch.engines.serving.endpoint_engine import EndpointEngineBase
from cosmos_batch.engines.serving.openai_errors import error_message
from cosmos_batch.engines.serving.remote_server import RemoteServer
from cosmos_batch.media.clip_files import as_mp4

# Makes the server use every frame that is sent, once. By default vLLM takes two a second, or 32 in all.
_EVERY_FRAME = {
    "media_io_kwargs": {"video": {"fps": 1000, "num_frames": -1}},
    "mm_processor_kwargs": {"do_sample_frames": False},
}
_NOT_IN_OPENAI = ("top_k", "repetition_penalty")  # vLLM and NIM have these
SERVER_SAMPLES_FRAMES = (
    "The server takes no settings of a request for its media: of the frames that were sent, the model saw those that "
    "the server's own rate takes."
)


class EndpointEngine(EndpointEngineBase):
    """An `Engine` and a `RemoteEngine`. `api_key` returns the server's API key, or None."""

    def __init__(self, endpoint: Endpoint, api_key: Callable[[], str | None]) -> None:
        super().__init__("endpoint", "answer", endpoint, api_key, dialect_of(ENDPOINT_ENGINE["reasoner", "openai"]))
        self._refused_fields: set[str] = set()  # each was refused by name, and the same request accepted without it

    def load(self, model_dir: Path, context: int | None = None) -> None:  # noqa: ARG002 - nothing is loaded here
        """Ask the server for its models; blocks. The folder is not read.

        Raises Failure: ModelUnavailable where the server has no such model or refuses access, EngineFailed where it
        cannot be reached.
        """
        journal = Journal()
        self.startup_logs = journal.lines
        reported = self._connect()[self._model]
        server_limit = reported if isinstance(reported, int) else self._endpoint.context
        self._checkpoint = CheckpointInfo.without_folder(
            server_limit if context is None else min(server_limit, context)
        )
        journal.note(f"{self._endpoint.url} serves {self._model}; context of {self._checkpoint.context:,} tokens")

    async def run(self, job: Job, workdir: Path) -> Answer:
        """Answer one job. Cancelling the task closes the connection.

        Raises Failure: InvalidInput where the job is at fault, ModelUnavailable and EngineFailed where the server is.
        """
        server = self._connected()
        paths = input_paths(job, workdir)
        with self._cancellation.scope() as check:
            request = await self._media_threads.run(
                job, prepare_request, self._checkpoint, job, paths, check, media_as_data
            )
        start = job.parameters.start or 0.0
        if start:
            request.notes.append(f"For the model, {start:g} s of a video were its beginning, 0 s.")
        answer = await self._send(server, request)
        return answer.model_copy(update={"zero_at": start})

    async def _send(self, server: RemoteServer, request: ChatRequest) -> Answer:
        """Send the request; if the server refuses optional fields or the schema, send it again without them."""
        began = time.monotonic()
        shows_video = any(part["type"] == "video_url" for part in request.body["messages"][-1]["content"])
        settings = _EVERY_FRAME if shows_video else {}
        left_out = set(self._refused_fields)
        while True:
            body = {"model": self._model, **request.body, **settings}
            body = {name: value for name, value in body.items() if name not in left_out}
            response = await server.send(request.journal, "POST", "chat/completions", json=body)
            if refused := _refused_fields(response, body):
                left_out |= refused
            elif not drop_refused_schema(request, response, server.dialect):
                break
        if not response.is_success:
            raise server.refusal(response)
        # Only now, because a server may refuse a request for another reason and quote a prompt that names a field.
        self._refused_fields |= left_out
        for name in sorted(left_out & request.body.keys()):
            request.notes.append(f"The server refuses `{name}`: the answer was sampled without it.")
        if shows_video:
            request.notes.append(SENT_AS_H264)
        if left_out & settings.keys():
            request.notes.append(SERVER_SAMPLES_FRAMES)
        try:
            return parse_answer(request, response.json(), time.monotonic() - began)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise server.malformed_answer() from error


def media_as_data(media: DecodedMedia, _source: Path) -> dict[str, Any]:
    """Return the part of a message that holds an image or clip as a data URL."""
    if isinstance(media, Image.Image):
        file = io.BytesIO()
        media.save(file, "PNG", compress_level=1)
        return {"type": "image_url", "image_url": {"url": data_url("image/png", file.getvalue())}}
    return {"type": "video_url", "video_url": {"url": data_url("video/mp4", as_mp4(media))}}


def _refused_fields(response: httpx2.Response, body: dict[str, Any]) -> set[str]:
    """Return the fields beyond OpenAI's that a server refuses by name. The two fields for media go together."""
    if not is_bad_request(response):
        return set()
    message = error_message(response)
    refused = {name for name in _NOT_IN_OPENAI if name in body and name in message}
    if any(name in body and name in message for name in _EVERY_FRAME):
        refused |= set(_EVERY_FRAME)
    return refused
