"""Write the tables of `docs/reasoner.md`: pipelines, parameters, tasks and limits. `make docs` runs this."""

import sys
from dataclasses import asdict
from pathlib import Path

from configuration_reference import row
from tables import filled, table

from cosmos_batch.catalogue.formats import EXTENSIONS
from cosmos_batch.catalogue.limits import (
    IMAGE_FILE_LIMIT,
    IMAGE_PIXEL_LIMIT,
    IMAGE_SIDE_LIMIT,
    INPUT_SIZE_LIMIT,
    PROMPT_LIMIT,
    VIDEO_PIXEL_LIMIT,
)
from cosmos_batch.catalogue.pipelines import PIPELINES
from cosmos_batch.catalogue.pixel_budget import MEDIA_SHARE
from cosmos_batch.catalogue.seen_media import DEFAULT_FPS, MAX_FRAMES, MIN_FRAMES, TOKENS_PER_FRAME
from cosmos_batch.contract.json_schema import COUNT_LIMIT, DEPTH_LIMIT, SCHEMA_LIMIT
from cosmos_batch.contract.parameters import FILES_LIMIT, FPS_LIMIT, Parameters
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.tasks import TASKS, Task
from cosmos_batch.media.decoding import DECODE_SECONDS
from cosmos_batch.media.fitting import ASPECT_RATIO_LIMIT
from cosmos_batch.media.timeline import DURATION_LIMIT, FRAME_LIMIT
from cosmos_batch.planning.questions import ANSWERING, DEFAULT_MAX_TOKENS, REASONING

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reasoner.md"


def page(text: str) -> str:
    """Return the page with its tables regenerated."""
    tables = {"pipelines": _pipelines(), "parameters": _parameters(), "sampling": _sampling(), "tasks": _tasks()}
    tables["limits"] = _limits()
    return filled(text, tables)


def _pipelines() -> str:
    rows = [
        f"| `{one.id}` | `{one.config_key}` | {one.model} | {one.gpus_per_worker} x {one.min_gpu_memory_gb} GB | "
        f"{one.context:,} tokens |"
        for one in PIPELINES
        if one.surface == "reasoner"
    ]
    return table("| pipeline | in the configuration | model | GPUs of a worker, at least | context |", rows)


def _parameters() -> str:
    rows = [row(field) for field in Parameters.model_fields.values()]
    return table("| parameter | type | default | what it is |", rows)


def _sampling() -> str:
    names = {name: str(field.alias) for name, field in Parameters.model_fields.items()}
    answering, reasoning = asdict(ANSWERING), asdict(REASONING)
    rows = [f"| `{names[name]}` | {answering[name]:g} | {reasoning[name]:g} |" for name in answering]
    return table("| parameter | without reasoning | with reasoning |", rows)


def _tasks() -> str:
    return table(
        "| task | file | thinks first | without a prompt | an example of a prompt | `data` |",
        list(map(_task, TASKS.values())),
    )


def _limits() -> str:
    pixels, side, frame = IMAGE_PIXEL_LIMIT, IMAGE_SIDE_LIMIT, VIDEO_PIXEL_LIMIT
    [system] = [one.max_length for one in Request.model_fields["system_prompt"].metadata if hasattr(one, "max_length")]
    limits = {
        "prompt": f"{PROMPT_LIMIT // 1024} KiB of UTF-8",
        "system prompt": f"{system:,} characters",
        "files": f"{FILES_LIMIT} of one request, {INPUT_SIZE_LIMIT >> 30} GiB together; `{' '.join(EXTENSIONS)}`",
        "picture": f"{pixels / 1e6:g} million pixels, {side:,} a side, a file of {IMAGE_FILE_LIMIT >> 20} MiB",
        "video": f"{frame / 1e6:.1f} million pixels a frame (7680 x 4320), {FRAME_LIMIT:,} frames, "
        f"{DURATION_LIMIT // 3600} hours, {DECODE_SECONDS // 60} minutes of decoding",
        "shape of either": f"one side at most {ASPECT_RATIO_LIMIT} times the other",
        "frames that are seen": f"`fps` a second, {DEFAULT_FPS:g} by default and {FPS_LIMIT} at most, but no more than "
        f"the video has; of a clip {MIN_FRAMES} at least, however small `fps` is, and {MAX_FRAMES} at most",
        "a frame": f"{TOKENS_PER_FRAME} tokens of 32 x 32 pixels in each of two frames; larger ones are scaled down",
        "prompt, media and answer together": "the model's context; a prompt that leaves no room is refused",
        "media": f"what prompt and `maxTokens` leave of the context, {MEDIA_SHARE:.0%} of it for the pixels (NVIDIA's "
        "rule): they are scaled down to fit",
        "answer": f"`maxTokens`; without it `max_new_tokens` of the checkpoint's generation_config.json, or "
        f"{DEFAULT_MAX_TOKENS:,}. It is cut to half of what the prompt leaves of the context, then to what the media "
        "leave; where that is less than was asked for, the document's `notes` say so",
        "`jsonSchema`": f"{SCHEMA_LIMIT // 1024} KiB with its references written out, {DEPTH_LIMIT} levels, "
        f"{COUNT_LIMIT:,} for all counts in it together",
    }
    return table("| what | limit |", [f"| {condition} | {limit} |" for condition, limit in limits.items()])


def _task(task: Task) -> str:
    nothing = "refused" if task.subject is None else task.subject.replace("{medium}", "video") or "nothing is added"
    fields = task.schema["items"]["properties"] if task.schema else {}
    cells = [
        f"`{task.name}`",
        task.medium or "either",
        "yes" if task.reasoning else "no",
        nothing,
        task.example,
        "list of " + ", ".join(f"`{name}`" for name in fields) if fields else "",
    ]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(TARGET.write_text(page(TARGET.read_text(encoding="utf-8")), encoding="utf-8") and 0)
