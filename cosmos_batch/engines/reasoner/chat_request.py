"""Turning a job and its files into one request of OpenAI's chat completions."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image
from tokenizers import Tokenizer

from cosmos_batch.contract.job import Job
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.reasoner.media_input import (
    DecodedMedia,
    MediaLimits,
    decode_inputs,
    frame_times,
    media_notes,
    probe_inputs,
)
from cosmos_batch.engines.reasoner.prompting import (
    cut_note,
    sampling_for,
    too_long,
    without_markup,
)
from cosmos_batch.media import clip_files
from cosmos_batch.planning.questions import DEFAULT_MAX_TOKENS

# Tokens that a chat template puts around system prompt, question and answer.
_TEMPLATE_TOKENS = 64
# Without a tokenizer, the tokens of a text are estimated: on average a token has at least two bytes of UTF-8, in
# English four.
_BYTES_PER_TOKEN = 2
# The limits and special tokens of Qwen3-VL.
_QWEN_LIMITS = MediaLimits()
_QWEN_MARKUP = [
    f"<|{name}|>"
    for name in ("im_start", "im_end", "endoftext", "vision_start", "vision_end", "image_pad", "video_pad")
]

WriteMedia = Callable[[DecodedMedia, Path], dict[str, Any]]
"""Returns the part of a message that shows the model an image or clip. The path is that of the job's file."""


@dataclass(frozen=True)
class CheckpointInfo:
    """The facts about a model that preparing a request takes, read from the checkpoint's files without loading it.

    Attributes
    ----------
    limits
        Sizes of images and videos that its processors accept.
    tokenizer
        None for a model on a user's server, whose checkpoint is not here.
    context
        Tokens of prompt and answer together.
    answer_tokens
        The longest answer where the request does not set `maxTokens`.
    """

    limits: MediaLimits
    tokenizer: Tokenizer | None
    context: int
    answer_tokens: int

    @classmethod
    def without_folder(cls, context: int) -> "CheckpointInfo":
        """Return the facts that are assumed of a model on a user's server, whose files cannot be read."""
        return cls(limits=_QWEN_LIMITS, tokenizer=None, context=context, answer_tokens=DEFAULT_MAX_TOKENS)

    @classmethod
    def from_folder(cls, folder: Path, context: int) -> "CheckpointInfo":
        """Read a checkpoint in the layout of Cosmos-Reason2 or Cosmos 3."""
        settings = folder / "generation_config.json"
        generation = json.loads(settings.read_text(encoding="utf-8")) if settings.exists() else {}
        return cls(
            limits=MediaLimits.from_folder(folder),
            tokenizer=Tokenizer.from_file(str(folder / "tokenizer.json")),
            context=context,
            answer_tokens=generation.get("max_new_tokens") or DEFAULT_MAX_TOKENS,
        )

    @property
    def markup(self) -> list[str]:
        """Return the special tokens, which a person's text must not contain."""
        if self.tokenizer is None:
            return _QWEN_MARKUP
        return [token.content for token in self.tokenizer.get_added_tokens_decoder().values() if token.special]

    def count(self, *texts: str) -> int:
        """Return the tokens of texts together; an estimate if there is no tokenizer."""
        tokenizer = self.tokenizer
        if tokenizer is None:
            return sum(len(text.encode()) // _BYTES_PER_TOKEN for text in texts)
        return sum(len(tokenizer.encode(text, add_special_tokens=False)) for text in texts)


@dataclass
class ChatRequest:
    """A request that is ready to be sent.

    Attributes
    ----------
    body
        The JSON body, without the model's name.
    journal
        The log lines of the answer.
    notes
        The notes of the answer's document.
    tokens
        An upper bound of the prompt's tokens, media included.
    timings
        Seconds by phase.
    frame_times
        Times of the frames of the first clip, in seconds.
    """

    body: dict[str, Any]
    journal: Journal
    notes: list[str]
    tokens: int
    timings: dict[str, float] = field(default_factory=dict)
    frame_times: list[float] = field(default_factory=list)


def media_as_files(media: DecodedMedia, source: Path) -> dict[str, Any]:
    """Write an image or clip beside its source file, for a server on this machine, and return a reference to it."""
    if isinstance(media, Image.Image):
        path = source.with_suffix(".seen.png")
        media.save(path, compress_level=1)
        return {"type": "image_url", "image_url": {"url": path.as_uri()}}
    path = source.with_suffix(f".seen{clip_files.SUFFIX}")
    digest = clip_files.write_clip(media, path)
    # vLLM takes the digest as the identity of the clip, instead of computing one in its only thread for media.
    return {"type": "video_url", "video_url": {"url": path.as_uri()}, "uuid": digest}


def prepare_request(
    checkpoint: CheckpointInfo,
    job: Job,
    paths: list[Path],
    check: Callable[[], None],
    write_media: WriteMedia = media_as_files,
    on_gpu: bool = False,
) -> ChatRequest:
    """Decode a job's files once, scale them to the model's context, and build the request.

    Raises Failure (InvalidInput) where a file is at fault, or the prompt leaves no room for it.

    Parameters
    ----------
    check
        Called while files are decoded; an exception that it raises ends the work.
    on_gpu
        Whether the GPU decodes large videos.
    """
    journal, began = Journal(), time.monotonic()
    infos = probe_inputs(job, paths)
    system, question = (without_markup(text, checkpoint.markup) for text in (job.system_prompt, job.prompt or ""))
    room = checkpoint.context - checkpoint.count(system, question) - _TEMPLATE_TOKENS
    answer_tokens = min(job.parameters.max_tokens or checkpoint.answer_tokens, room // 2)
    if answer_tokens < 1:
        raise too_long(f"The prompt fills the model's context of {checkpoint.context:,} tokens.")
    media = decode_inputs(checkpoint.limits, job, paths, infos, room - answer_tokens, check, journal, on_gpu)
    parts = [write_media(medium, path) for medium, path in zip(media, paths, strict=True)]
    media_tokens = sum(map(checkpoint.limits.tokens, media))
    if media_tokens >= room:
        raise too_long(f"Prompt and media fill the model's context of {checkpoint.context:,} tokens.")
    max_tokens = min(answer_tokens, room - media_tokens)
    body = {
        "messages": [
            {"role": "system", "content": system},
            {"role": "user", "content": [*parts, {"type": "text", "text": question}]},
        ],
        "max_tokens": max_tokens,
        **asdict(sampling_for(job)),
        **_schema_constraint(job),
    }
    notes = [*media_notes(job, media), *cut_note(job, max_tokens)]
    timings = {"decode": time.monotonic() - began}
    return ChatRequest(body, journal, notes, checkpoint.context - room + media_tokens, timings, frame_times(media))


def _schema_constraint(job: Job) -> dict[str, Any]:
    """Return the field with which a server keeps the answer to the job's JSON Schema.

    An answer that begins with reasoning cannot be kept to it.
    """
    schema = job.parameters.json_schema
    if schema is None or job.parameters.reasoning:
        return {}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}
