"""What the model reads of a prompt, the same on every engine: as Diffusers' `tokenize_prompt` makes it.

Engines write size and duration into prompts by rules of their own, so that they are sent what is written here, and told
to add nothing.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cosmos_batch.catalogue.generation import SIZES, Size, ViewPoint
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.engines.generator.inputs import PreparedGeneration, action_canvas
from cosmos_batch.planning.generation.prompts import settle_sequence_length

_SYSTEM = "You are a helpful assistant who will generate {} from a give prompt."  # as it was trained on
_SYSTEM_OF_TRANSFER = (
    "You are a helpful assistant that generates images or videos following the user's instructions"
    " and control signals (edge maps, blur, depth, or segmentation)."
)
_FRAMING: dict[ViewPoint, str] = {
    "ego_view": "This video is captured from a first-person perspective looking at the scene.",
    "third_person_view": (
        "This video is captured from a third-person perspective looking towards the agent from the front."
    ),
    "wrist_view": "This video is captured from a wrist-mounted camera.",
    "concat_view": "This video contains concatenated views from multiple camera perspectives.",
}


@dataclass(frozen=True)
class Captions:
    """Of one generation.

    Attributes
    ----------
    prompt
        Behind it stands what its templates say of duration and size; of an action it is NVIDIA's caption in JSON.
    negative
        Behind it stands that it is not so.
    system
        The system prompt of both; None where there is none.
    """

    prompt: str
    negative: str
    system: str | None


def captions_for(asked: Generation, size: Size) -> Captions:
    """Those of a generation whose size, frames and rate are known."""
    if asked.action:
        return Captions(_action_caption(asked, size), asked.negative_prompt, None)
    return Captions(
        _behind(asked.prompt, _templates(asked, size, "is")),
        _behind(asked.negative_prompt, _templates(asked, size, "is not")),
        _SYSTEM_OF_TRANSFER if asked.transfer else _SYSTEM.format("videos" if asked.is_video else "images"),
    )


def with_sequence_length(prepared: PreparedGeneration, count: Callable[[str], int]) -> PreparedGeneration:
    """With `max_sequence_length` as the captions need it: what engines put around them does not count.

    Raises Failure where it was set to less.
    """
    asked = prepared.generation
    captions = captions_for(asked, prepared.size)
    length = settle_sequence_length(asked.max_sequence_length, count(captions.prompt), count(captions.negative))
    return replace(prepared, generation=asked.model_copy(update={"max_sequence_length": length}))


def protect_json(caption: str) -> str:
    """A caption in JSON as vLLM-Omni and Cosmos Framework leave it: into an object they write size, duration and rate,
    whatever they are told. With a form feed behind it they find none, and take that away with other space."""
    return f"{caption}\f" if caption.startswith("{") else caption


def _templates(asked: Generation, size: Size, verb: str) -> list[str]:
    assert asked.num_frames is not None and asked.fps is not None
    kind, sentences = "video" if asked.is_video else "image", []
    # Of transfer the model sees one chunk at a time.
    frames = min(asked.num_frames, asked.transfer.frames_per_chunk) if asked.transfer else asked.num_frames
    if asked.use_duration_template:
        sentences.append(f"The video {verb} {frames / asked.fps:.1f} seconds long and {verb} of {asked.fps:.0f} FPS.")
    if asked.use_resolution_template:
        sentences.append(f"This {kind} {verb} of {size.height}x{size.width} resolution.")
    return sentences


def _behind(text: str, sentences: list[str]) -> str:
    for sentence in sentences:
        before = text.rstrip(".")
        text = f"{before}. {sentence}" if before else sentence
    return text


def _action_caption(asked: Generation, size: Size) -> str:
    """The size in it is that of the canvas on which the picture lies."""
    assert asked.action and asked.resolution and asked.num_frames is not None and asked.fps is not None
    seconds = asked.num_frames / asked.fps
    canvas = action_canvas(asked.resolution, size)
    ratio = next(name for name, one in SIZES[asked.resolution].items() if one == canvas)
    minutes, rest = divmod(round(seconds), 60)
    ends = asked.prompt.endswith((".", "!", "?"))
    caption: dict[str, Any] = {
        "cinematography": {"framing": _FRAMING[asked.action.view_point]},
        "actions": [
            {"time": f"0:00-{minutes}:{rest:02d}", "description": asked.prompt if ends else f"{asked.prompt}."}
        ],
        "duration": f"{int(seconds)}s",
        "fps": float(asked.fps),
        "resolution": {"H": canvas.height, "W": canvas.width},
        "aspect_ratio": ratio.replace(":", ","),
    }
    return json.dumps(caption)
