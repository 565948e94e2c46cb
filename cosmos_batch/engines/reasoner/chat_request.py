"""From a job and its files to one request of the OpenAI protocol, with its media on disk."""

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
from cosmos_batch.engines.reasoner.media_input import MediaLimits, Seen, media_notes, probe_all, see
from cosmos_batch.engines.reasoner.prompting import DEFAULT_MAX_TOKENS, cut_note, sampling_for, too_long, without_markup
from cosmos_batch.media import clip_files

# Tokens that a chat template puts around system prompt, question and answer.
_TEMPLATE_TOKENS = 64
# Of text whose tokenizer is not at hand: a token has two bytes of UTF-8 at least on average, in English four.
_BYTES_PER_TOKEN = 2
# Of Qwen3-VL, on which all Cosmos reasoners are built.
_SIGHT = MediaLimits(multiple=32, image_pixels=16_777_216, video_pixels=25_165_824)
_MARKUP = [
    f"<|{name}|>"
    for name in ("im_start", "im_end", "endoftext", "vision_start", "vision_end", "image_pad", "video_pad")
]

Write = Callable[[Seen, Path], dict[str, Any]]
"""Makes the part of a message that shows the model what it is to see; the file that it came from lies at the path."""


@dataclass(frozen=True)
class CheckpointInfo:
    """What is known of a checkpoint without loading it.

    Attributes
    ----------
    tokenizer
        None where there is no checkpoint at hand.
    context
        Tokens of prompt and answer together.
    answer_tokens
        The longest answer where the caller does not say.
    """

    sight: MediaLimits
    tokenizer: Tokenizer | None
    context: int
    answer_tokens: int

    @classmethod
    def without_folder(cls, context: int) -> "CheckpointInfo":
        """Of a checkpoint that lies elsewhere."""
        return cls(sight=_SIGHT, tokenizer=None, context=context, answer_tokens=DEFAULT_MAX_TOKENS)

    @classmethod
    def of_folder(cls, folder: Path, context: int) -> "CheckpointInfo":
        """Of a checkpoint in the layout of Cosmos-Reason2 or Cosmos 3."""
        settings = folder / "generation_config.json"
        generation = json.loads(settings.read_text(encoding="utf-8")) if settings.exists() else {}
        return cls(
            sight=MediaLimits.of_folder(folder),
            tokenizer=Tokenizer.from_file(str(folder / "tokenizer.json")),
            context=context,
            answer_tokens=generation.get("max_new_tokens") or DEFAULT_MAX_TOKENS,
        )

    @property
    def markup(self) -> list[str]:
        """The special tokens, which a person's text must not contain."""
        if self.tokenizer is None:
            return _MARKUP
        return [token.content for token in self.tokenizer.get_added_tokens_decoder().values() if token.special]

    def count(self, *texts: str) -> int:
        """Tokens of some texts."""
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
        The request, but for the model's name.
    notes
        Of the answer.
    tokens
        Of the prompt with its media, about.
    timings
        Seconds by phase.
    """

    body: dict[str, Any]
    journal: Journal
    notes: list[str]
    tokens: int
    timings: dict[str, float] = field(default_factory=dict)


def media_as_files(seen: Seen, source: Path) -> dict[str, Any]:
    """For a server of ours, on this machine: what its message part points to lies beside the source."""
    if isinstance(seen, Image.Image):
        path = source.with_suffix(".seen.png")
        seen.save(path, compress_level=1)
        return {"type": "image_url", "image_url": {"url": path.as_uri()}}
    path = source.with_suffix(f".seen{clip_files.SUFFIX}")
    clip_files.write_clip(seen, path)
    return {"type": "video_url", "video_url": {"url": path.as_uri()}}


def prepare(
    reader: CheckpointInfo, job: Job, paths: list[Path], check: Callable[[], None], write: Write = media_as_files
) -> ChatRequest:
    """Decode a job's files once, fit them to the context, and write down what the model is to see.

    Raises Failure (InvalidInput) where a file is at fault, or the prompt leaves no room for it.
    """
    journal, began = Journal(), time.monotonic()
    found = probe_all(job, paths)
    system, question = (without_markup(text, reader.markup) for text in (job.system_prompt, job.prompt or ""))
    room = reader.context - reader.count(system, question) - _TEMPLATE_TOKENS
    asked = min(job.parameters.max_tokens or reader.answer_tokens, room // 2)
    if asked < 1:
        raise too_long(f"The prompt fills the model's context of {reader.context:,} tokens.")
    seen = see(reader.sight, job, paths, found, room - asked, check, journal)
    media = [write(one, path) for one, path in zip(seen, paths, strict=True)]
    media_tokens = sum(map(reader.sight.tokens, seen))
    if media_tokens >= room:
        raise too_long(f"Prompt and media fill the model's context of {reader.context:,} tokens.")
    max_tokens = min(asked, room - media_tokens)
    body = {
        "messages": [
            {"role": "system", "content": system},
            {"role": "user", "content": [*media, {"type": "text", "text": question}]},
        ],
        "max_tokens": max_tokens,
        **asdict(sampling_for(job)),
        **_constraint(job),
    }
    notes = [*media_notes(job, seen), *cut_note(job, max_tokens)]
    return ChatRequest(body, journal, notes, reader.context - room + media_tokens, {"decode": time.monotonic() - began})


def _constraint(job: Job) -> dict[str, Any]:
    """What keeps the answer to the caller's schema. An answer that reasons first cannot be held to it."""
    schema = job.parameters.json_schema
    if schema is None or job.parameters.reasoning:
        return {}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}
