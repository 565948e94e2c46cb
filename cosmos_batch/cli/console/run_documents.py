"""The lines of a run as documents of the console."""

import json
import re
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from cosmos_batch.catalogue.formats import medium_of
from cosmos_batch.console.documents import Document, NamedMedia, parse_document
from cosmos_batch.contract.runs import ResultLine, RunRequest
from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.viewing.marks import marks_of_answer

_TIMESTAMP = re.compile(r"_(\d{8}-\d{6})(?:_[^/]*)?\.json$")


def document_of_line(line: ResultLine, request: RunRequest, started: str) -> Document:
    """Return the document of one item: an answer, a generation, or an error. `started` is when the run was."""
    outputs = [parse_uri(output.uri) for output in line.outputs if output.content_type.startswith(("video/", "image/"))]
    media = [NamedMedia("input", _name(line.input), line.input)] if line.input else []
    for output in outputs:
        name = PurePosixPath(output.key).name
        media.insert(len(media) - bool(line.input), NamedMedia(medium_of(name) or "video", name, output.uri))
    timestamp = _TIMESTAMP.search(line.document or "")
    return Document(
        kind="error" if line.error else "generation" if outputs else "answer",
        name=media[0].name if media else line.id,
        timestamp=timestamp[1] if timestamp else started,
        prompt=line.prompt or request.prompt or "",
        task=request.parameters.task or "",
        answer=line.error.message if line.error else line.answer or "",
        content=line.model_dump(mode="json", by_alias=True, exclude_none=True),
        model=line.model or "",
        pipeline=line.pipeline,
        error=line.error,
        reasoning=line.reasoning,
        media=tuple(media),
        marks=marks_of_answer(line.data, line.answer or ""),
        notes=tuple(line.notes),
        item=line.id,
        job_id=line.job_id,
        variant=json.dumps(line.variant, sort_keys=True) if line.variant else "",
        seconds=line.seconds,
        gpu_seconds=line.gpu_seconds,
        dollars=line.dollars,
        reused=line.reused,
    )


def with_whole_document(document: Document, text: bytes | None) -> Document:
    """Return an item's document with what only its file in S3 has: frames, timings, and further inputs."""
    whole = parse_document(text) if text is not None else None
    if whole is None:
        return document
    more = [media for media in whole.media if media.role == "input" and media.uri not in _uris(document)]
    content: Any = whole.content
    return replace(
        document,
        content=content,
        media=(*document.media, *more),
        frame_times=whole.frame_times,
        timings=whole.timings,
        notes=whole.notes,
    )


def _uris(document: Document) -> set[str | None]:
    return {media.uri for media in document.media}


def _name(uri: str) -> str:
    return PurePosixPath(parse_uri(uri).key).name
