"""Answers by somebody else's server, which speaks OpenAI chat completions: a NIM container, vLLM, a service.

What the model is to see is decoded, cut, sampled and fitted here, as for every engine, and travels in the request: a
foreign server reads none of our files. Images are PNG, clips MP4 with the frames that were sampled and no others.
"""

import base64
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
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.reasoner.chat_request import ChatRequest, CheckpointInfo, prepare
from cosmos_batch.engines.reasoner.chat_response import drop_schema_if_refused, is_bad_request, parse_answer
from cosmos_batch.engines.reasoner.media_input import Seen
from cosmos_batch.engines.serving.dialect import dialect_of
from cosmos_batch.engines.serving.endpoint_engine import EndpointEngineBase
from cosmos_batch.engines.serving.openai_errors import error_message
from cosmos_batch.engines.serving.remote_server import RemoteServer
from cosmos_batch.media.clip_files import as_mp4

# Every frame that is sent, once. By itself vLLM takes two a second, or 32 in all.
_EVERY_FRAME = {
    "media_io_kwargs": {"video": {"fps": 1000, "num_frames": -1}},
    "mm_processor_kwargs": {"do_sample_frames": False},
}
_NOT_OPENAIS = ("top_k", "repetition_penalty")  # which vLLM and NIM know
ITS_OWN_RATE = (
    "The server takes no settings of a request for its media: of the frames that were sent, the model saw those that "
    "the server's own rate takes."
)


class EndpointEngine(EndpointEngineBase):
    """`Engine` for a model that is resident elsewhere. `api_key` gives the key, or None."""

    def __init__(self, endpoint: Endpoint, api_key: Callable[[], str | None]) -> None:
        super().__init__("endpoint", "answer", endpoint, api_key, dialect_of(ENDPOINT_ENGINE["reasoner"]))
        self._unknown: set[str] = set()  # fields that the server refuses

    def load(self, model_dir: Path, context: int | None = None) -> None:  # noqa: ARG002 - nothing is loaded here
        """Ask the server for its models; blocks. Nothing of the folder is read.

        Raises Failure: ModelUnavailable where it has no such model or refuses us, EngineFailed where it is not
        there.
        """
        journal = Journal()
        self.startup_logs = journal.lines
        said = self._connect()[self._model]
        own = said if isinstance(said, int) else self._endpoint.context
        self._reader = CheckpointInfo.without_folder(own if context is None else min(own, context))
        journal.note(f"{self._endpoint.url} serves {self._model}; context of {self._reader.context:,} tokens")

    async def run(self, job: Job, workdir: Path) -> Answer:
        """Answer one job. Cancelling the task closes the connection.

        Raises Failure: InvalidInput where the job is at fault, ModelUnavailable and EngineFailed where the server is.
        """
        server = self._connected()
        with self._cancellation.scope() as check:
            paths = input_paths(job, workdir)
            question = await self._preparing.run(job, prepare, self._reader, job, paths, check, media_as_data)
        if job.parameters.start:
            question.notes.append(f"For the model, {job.parameters.start:g} s of a video were its beginning, 0 s.")
        return await self._ask(server, question)

    async def _ask(self, server: RemoteServer, question: ChatRequest) -> Answer:
        began = time.monotonic()
        shows_video = any(part["type"] == "video_url" for part in question.body["messages"][-1]["content"])
        settings = _EVERY_FRAME if shows_video else {}
        while True:
            body = {"model": self._model, **question.body, **settings}
            body = {name: value for name, value in body.items() if name not in self._unknown}
            response = await server.send(question.journal, "POST", "chat/completions", json=body)
            if unknown := _unknown_of(response, body):
                self._unknown |= unknown
            elif not drop_schema_if_refused(question, response, server.dialect):
                break
        if not response.is_success:
            raise server.refusal(response)
        for name in sorted(self._unknown & question.body.keys()):
            question.notes.append(f"The server refuses `{name}`: the answer was sampled without it.")
        if self._unknown & settings.keys():
            question.notes.append(ITS_OWN_RATE)
        try:
            return parse_answer(question, response.json(), time.monotonic() - began)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise server.nonsense() from error


def media_as_data(seen: Seen, _source: Path) -> dict[str, Any]:
    """The media part of a message, with its media in it."""
    if isinstance(seen, Image.Image):
        file = io.BytesIO()
        seen.save(file, "PNG", compress_level=1)
        return {"type": "image_url", "image_url": {"url": _data_url("image/png", file.getvalue())}}
    return {"type": "video_url", "video_url": {"url": _data_url("video/mp4", as_mp4(seen))}}


def _data_url(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _unknown_of(response: httpx2.Response, body: dict[str, Any]) -> set[str]:
    """Of the fields that are not OpenAI's own, those that a server refuses; both of how media are read, or none."""
    if not is_bad_request(response):
        return set()
    said = error_message(response)
    found = {name for name in _NOT_OPENAIS if name in body and name in said}
    if any(name in body and name in said for name in _EVERY_FRAME):
        found |= set(_EVERY_FRAME)
    return found
