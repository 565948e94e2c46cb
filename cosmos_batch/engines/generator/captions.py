"""The text that the model reads: prompt, negative prompt and system prompt, the same with every engine of workers.

It is what Diffusers' `tokenize_prompt` produces (decision 062). Each engine has its own rules for adding size and
duration to a prompt; each is sent the finished text from here, with its own rules switched off. Those of a
NIM cannot be switched off, so it is sent the prompts as they are written (decision 069).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cosmos_batch.catalogue.generation import Size, ViewPoint, aspect_ratio_of
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.engines.generator.inputs import PreparedGeneration, action_canvas
from cosmos_batch.planning.generation.prompts import settle_sequence_length

_SYSTEM = "You are a helpful assistant who will generate {} from a give prompt."  # the typo is in the training data
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
    """The texts of one generation.

    Attributes
    ----------
    prompt
        The prompt, followed by sentences with duration and size as far as the job's templates are on. With actions, it
        is NVIDIA's caption in JSON.
    negative
        The negative prompt, followed by the same sentences negated ("is not").
    system
        The system prompt of both; None with actions, which have none.
    """

    prompt: str
    negative: str
    system: str | None


def captions_for(generation: Generation, size: Size) -> Captions:
    """Return the texts for a generation whose size, frame count and frame rate are settled."""
    if generation.action:
        return Captions(_action_caption(generation, size), generation.negative_prompt, None)
    return Captions(
        _with_sentences(generation.prompt, _templates(generation, size, "is")),
        _with_sentences(generation.negative_prompt, _templates(generation, size, "is not")),
        _SYSTEM_OF_TRANSFER if generation.transfer else _SYSTEM.format("videos" if generation.is_video else "images"),
    )


def with_sequence_length(prepared: PreparedGeneration, count: Callable[[str], int]) -> PreparedGeneration:
    """Return the generation with `max_sequence_length` long enough for its captions, in tokens.

    `count` returns the tokens of a text. Chat markup and system prompt do not count. Raises Failure (InvalidInput) if
    the request set a smaller `maxSequenceLength`.
    """
    generation = prepared.generation
    captions = captions_for(generation, prepared.size)
    length = settle_sequence_length(generation.max_sequence_length, count(captions.prompt), count(captions.negative))
    return replace(prepared, generation=generation.model_copy(update={"max_sequence_length": length}))


def protect_json(caption: str) -> str:
    """Append a form feed to a caption in JSON, so that vLLM-Omni and Cosmos Framework leave it unchanged.

    Both parse a caption and, if it is a JSON object, write size, duration and frame rate into it, whatever their
    settings are. A form feed is white space that JSON does not allow: the parse fails, and both strip it from the text
    later.
    """
    return f"{caption}\f" if caption.startswith("{") else caption


def _templates(generation: Generation, size: Size, verb: str) -> list[str]:
    assert generation.num_frames is not None and generation.fps is not None
    kind, sentences = ("video" if generation.is_video else "image"), []
    # A transfer generates one chunk at a time, so the duration is that of a chunk.
    frames = (
        min(generation.num_frames, generation.transfer.frames_per_chunk)
        if generation.transfer
        else generation.num_frames
    )
    if generation.use_duration_template:
        seconds = frames / generation.fps
        sentences.append(f"The video {verb} {seconds:.1f} seconds long and {verb} of {generation.fps:.0f} FPS.")
    if generation.use_resolution_template:
        sentences.append(f"This {kind} {verb} of {size.height}x{size.width} resolution.")
    return sentences


def _with_sentences(text: str, sentences: list[str]) -> str:
    for sentence in sentences:
        before = text.rstrip(".")
        text = f"{before}. {sentence}" if before else sentence
    return text


def _action_caption(generation: Generation, size: Size) -> str:
    """Return NVIDIA's caption in JSON for a generation with actions. Its size is that of the canvas, not of the picture
    on it."""
    assert (
        generation.action and generation.resolution and generation.num_frames is not None and generation.fps is not None
    )
    seconds = generation.num_frames / generation.fps
    canvas = action_canvas(generation.resolution, size)
    ratio = aspect_ratio_of(canvas)
    assert ratio is not None, "a canvas is a size of the table"
    minutes, rest = divmod(round(seconds), 60)
    prompt = generation.prompt if generation.prompt.endswith((".", "!", "?")) else f"{generation.prompt}."
    caption: dict[str, Any] = {
        "cinematography": {"framing": _FRAMING[generation.action.view_point]},
        "actions": [{"time": f"0:00-{minutes}:{rest:02d}", "description": prompt}],
        "duration": f"{int(seconds)}s",
        "fps": float(generation.fps),
        "resolution": {"H": canvas.height, "W": canvas.width},
        "aspect_ratio": ratio.replace(":", ","),
    }
    return json.dumps(caption)
