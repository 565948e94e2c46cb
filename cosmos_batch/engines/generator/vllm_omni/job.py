"""One generation on its way through a vLLM-Omni server: prepared, made there, and written as ours are."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.guardrails import Checks
from cosmos_batch.contract.result import Made
from cosmos_batch.engines.generator.captions import captions_for, with_sequence_length
from cosmos_batch.engines.generator.inputs import PreparedGeneration, prepare
from cosmos_batch.engines.generator.outputs import rewrite_files
from cosmos_batch.engines.generator.vllm_omni.client import Send, ServerOutput, make_image, make_video
from cosmos_batch.engines.generator.vllm_omni.requests import VideoForm, image_body, video_form
from cosmos_batch.engines.job_files import GenerationFiles
from cosmos_batch.engines.journal import TimedJournal
from cosmos_batch.planning.generation.abilities import refuse_unable_engine
from cosmos_batch.planning.generation.prompts import DEFAULT_SEQUENCE_LENGTH

_UNCOUNTED = "The server's tokenizer is not here: whether a prompt has more tokens than maxSequenceLength was not seen."


@dataclass(frozen=True)
class PreparedRequest:
    """What is sent, and what it was made of."""

    prepared: PreparedGeneration
    sent: dict[str, Any] | VideoForm


class OmniJob:
    """One job.

    Parameters
    ----------
    folder
        The job's.
    count
        Tokens of a text; None where the checkpoint's tokenizer is not at hand.
    shares_files
        Whether the server sees the folder.
    check
        Called between frames. What it raises ends the work.
    """

    def __init__(
        self, folder: Path, count: Callable[[str], int] | None, shares_files: bool, check: Callable[[], None]
    ) -> None:
        self._folder, self._count, self._shares_files, self._check = folder, count, shares_files, check
        self._journal = TimedJournal()
        self._notes: list[str] = []
        self.name = uuid.uuid4().hex
        """By which the server reports the checks of its guardrails."""

    @property
    def journal(self) -> TimedJournal:
        """Lines about this job."""
        return self._journal

    def prepare(self, asked: Generation, files: GenerationFiles) -> PreparedRequest:
        """Decode and fit the inputs, and write down the request; blocks. Raises Failure."""
        with self._journal.timed("prepare"):
            return self._prepare(asked, files)

    async def make(self, order: PreparedRequest, send: Send) -> ServerOutput:
        """Have it made. Cancelling aborts it. Raises Failure, and what `send` raises."""
        with self._journal.timed("generate"):
            if isinstance(order.sent, VideoForm):
                return await make_video(send, order.sent)
            return await make_image(send, order.sent)

    def write(self, made: ServerOutput, order: PreparedRequest, checks: Checks) -> Made:
        """As the files that are promised; blocks. Raises Failure (EngineFailed) where it is no picture or video."""
        asked = order.prepared.generation
        with self._journal.timed("write"):
            source = self._folder / ("made.mp4" if asked.is_video else "made.png")
            source.write_bytes(made.content)
            files = rewrite_files(source, made.actions, asked, self._folder, self._check)
        return Made(
            files=files,
            generation=asked,
            timings=self._journal.seconds,
            logs=self._journal.lines,
            notes=self._notes,
            checks=checks,
            facts={"scheduler": "UniPC", **made.facts},
        )

    def _prepare(self, asked: Generation, files: GenerationFiles) -> PreparedRequest:
        prepared = prepare(asked, files, self._check)
        refuse_unable_engine("vllm-omni", prepared.generation)  # now that size, frames and rate are known
        prepared = with_sequence_length(prepared, self._count) if self._count else self._uncounted(prepared)
        if asked.is_video:
            sent = video_form(prepared, self.name, self._folder, self._shares_files, self._check)
            return PreparedRequest(prepared, sent)
        return PreparedRequest(prepared, image_body(prepared, self.name))

    def _uncounted(self, prepared: PreparedGeneration) -> PreparedGeneration:
        """With as many tokens as there may be: never more than bytes."""
        asked = prepared.generation
        captions = captions_for(asked, prepared.size)
        longest = max(len(text.encode()) for text in (captions.prompt, captions.negative))
        if asked.max_sequence_length is not None and asked.max_sequence_length < longest:
            self._notes.append(_UNCOUNTED)
        length = max(asked.max_sequence_length or DEFAULT_SEQUENCE_LENGTH, longest)
        return replace(prepared, generation=asked.model_copy(update={"max_sequence_length": length}))
