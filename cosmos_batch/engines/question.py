"""From a job and its files to one request of the OpenAI protocol, with its media on disk."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image
from tokenizers import Tokenizer

from cosmos_batch.contract import Job
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.prompt import too_long, without_markup
from cosmos_batch.engines.sampling import DEFAULT_MAX_TOKENS, sampling_for
from cosmos_batch.engines.seeing import Seen, Sight, notes_of, probe_all, see
from cosmos_batch.media import clip_files

# Tokens that a chat template puts around system prompt, question and answer.
_TEMPLATE_TOKENS = 64


@dataclass(frozen=True)
class Reader:
    """What is known of a checkpoint without loading it.

    Attributes
    ----------
    context
        Tokens of prompt and answer together.
    answer_tokens
        The longest answer where the caller does not say.
    """

    sight: Sight
    tokenizer: Tokenizer
    context: int
    answer_tokens: int

    @classmethod
    def of_folder(cls, folder: Path, context: int) -> "Reader":
        """Of a checkpoint in the layout of Cosmos-Reason2 or Cosmos 3."""
        settings = folder / "generation_config.json"
        generation = json.loads(settings.read_text(encoding="utf-8")) if settings.exists() else {}
        return cls(
            sight=Sight.of_folder(folder),
            tokenizer=Tokenizer.from_file(str(folder / "tokenizer.json")),
            context=context,
            answer_tokens=generation.get("max_new_tokens") or DEFAULT_MAX_TOKENS,
        )

    @property
    def markup(self) -> list[str]:
        """The special tokens, which a person's text must not contain."""
        return [token.content for token in self.tokenizer.get_added_tokens_decoder().values() if token.special]

    def count(self, *texts: str) -> int:
        """Tokens of some texts."""
        return sum(len(self.tokenizer.encode(text, add_special_tokens=False)) for text in texts)


@dataclass
class Question:
    """A request that is ready to be sent.

    Attributes
    ----------
    body
        The request, but for the model's name.
    timings
        Seconds by phase.
    notes
        Of the answer.
    """

    body: dict[str, Any]
    journal: Journal
    notes: list[str]
    timings: dict[str, float] = field(default_factory=dict)


def prepare(reader: Reader, job: Job, paths: list[Path], check: Callable[[], None]) -> Question:
    """Decode a job's files once, fit them to the context, and write what the model is to see beside them.

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
    media = [_write(one, path) for one, path in zip(seen, paths, strict=True)]
    media_tokens = sum(map(reader.sight.tokens, seen))
    if media_tokens >= room:
        raise too_long(f"Prompt and media fill the model's context of {reader.context:,} tokens.")
    body = {
        "messages": [
            {"role": "system", "content": system},
            {"role": "user", "content": [*media, {"type": "text", "text": question}]},
        ],
        "max_tokens": min(asked, room - media_tokens),
        **asdict(sampling_for(job)),
        **_constraint(job),
    }
    return Question(body, journal, notes_of(job, seen), {"decode": time.monotonic() - began})


def _constraint(job: Job) -> dict[str, Any]:
    """What keeps the answer to the caller's schema. An answer that reasons first cannot be held to it."""
    schema = job.parameters.json_schema
    if schema is None or job.parameters.reasoning:
        return {}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}


def _write(seen: Seen, source: Path) -> dict[str, Any]:
    """The media part of a message; what it points to lies beside the source."""
    if isinstance(seen, Image.Image):
        path = source.with_suffix(".seen.png")
        seen.save(path, compress_level=1)
        return {"type": "image_url", "image_url": {"url": path.as_uri()}}
    path = source.with_suffix(f".seen{clip_files.SUFFIX}")
    clip_files.write_clip(seen, path)
    return {"type": "video_url", "video_url": {"url": path.as_uri()}}
