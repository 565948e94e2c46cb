"""Run one generation with a vLLM-Omni server: prepare the request, have it generated, write the output files.

The engine with a child process and the one with a remote server share it.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.engines.generator.captions import captions_for, with_sequence_length
from cosmos_batch.engines.generator.inputs import PreparedGeneration
from cosmos_batch.engines.generator.served_job import ServedJob, ServerOutput
from cosmos_batch.engines.generator.vllm_omni.client import Send, generate_image, generate_video
from cosmos_batch.engines.generator.vllm_omni.requests import VideoForm, image_body, video_form
from cosmos_batch.engines.job_files import GenerationFiles
from cosmos_batch.planning.generation.prompts import DEFAULT_SEQUENCE_LENGTH

_UNCOUNTED = "The server's tokenizer is not here: whether a prompt has more tokens than maxSequenceLength is unknown."


@dataclass(frozen=True)
class PreparedRequest:
    """A generation with its inputs, and the request to send for it: the body of an image, or the form of a video."""

    prepared: PreparedGeneration
    content: dict[str, Any] | VideoForm


class OmniJob(ServedJob):
    """A generation with a vLLM-Omni server. Call `prepare`, `generate` and `write` in this order.

    Parameters
    ----------
    folder
        The job's working folder, into which the output files are written.
    count
        Returns the tokens of a text; None if the checkpoint's tokenizer is not available here.
    shares_files
        Whether the server can read the folder.
    check
        Called between frames. An exception that it raises ends the work.
    """

    def __init__(
        self, folder: Path, count: Callable[[str], int] | None, shares_files: bool, check: Callable[[], None]
    ) -> None:
        super().__init__("vllm-omni", folder, check)
        self._count, self._shares_files = count, shares_files
        self.name = uuid.uuid4().hex
        """The request's name, under which the server reports the verdicts of its guardrails."""

    def prepare(self, generation: Generation, files: GenerationFiles) -> PreparedRequest:
        """Decode and fit the inputs, and build the request; blocks. Raises Failure."""
        with self._journal.timed("prepare"):
            return self._prepare(generation, files)

    async def generate(self, request: PreparedRequest, send: Send) -> ServerOutput:
        """Have the server generate. Cancelling aborts it. Raises Failure, and what `send` raises."""
        with self._journal.timed("generate"):
            if isinstance(request.content, VideoForm):
                return await generate_video(send, request.content)
            return await generate_image(send, request.content)

    def _prepare(self, generation: Generation, files: GenerationFiles) -> PreparedRequest:
        prepared = self._prepared(generation, files)
        prepared = with_sequence_length(prepared, self._count) if self._count else self._uncounted(prepared)
        if generation.is_video:
            form = video_form(prepared, self.name, self._folder, self._shares_files, self._check)
            return PreparedRequest(prepared, form)
        return PreparedRequest(prepared, image_body(prepared, self.name))

    def _uncounted(self, prepared: PreparedGeneration) -> PreparedGeneration:
        """Return the generation with a long enough `max_sequence_length`: a text has no more tokens than bytes."""
        generation = prepared.generation
        captions = captions_for(generation, prepared.size)
        longest = max(len(text.encode()) for text in (captions.prompt, captions.negative))
        if generation.max_sequence_length is not None and generation.max_sequence_length < longest:
            self._notes.append(_UNCOUNTED)
        length = max(generation.max_sequence_length or DEFAULT_SEQUENCE_LENGTH, longest)
        return replace(prepared, generation=generation.model_copy(update={"max_sequence_length": length}))
