"""A generation as what our driver of PhyAI is sent: texts as the model reads them, and pictures as arrays.

PhyAI writes size and duration behind each prompt, or into one in JSON, or nothing; so we write them, as Diffusers does.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cosmos_batch.contract.generation.schema import Generation
from cosmos_batch.contract.generation.sizes import Size
from cosmos_batch.engines.generator.inputs import Prepared


@dataclass(frozen=True)
class Given:
    """What a request looks at.

    Attributes
    ----------
    frames
        Array of RGB, uint8, [T, H, W, 3], of exactly the size and frames that count.
    actions
        Rows of forward dynamics.
    """

    frames: Path | None = None
    actions: list[list[float]] | None = None


def write_given(prepared: Prepared, folder: Path) -> Given:
    """Write the frames into a folder."""
    if not prepared.frames:
        return Given(actions=prepared.actions)
    frames = folder / "given.npy"
    np.save(frames, np.stack(prepared.frames))
    return Given(frames, prepared.actions)


def request_of(asked: Generation, size: Size, given: Given) -> dict[str, Any]:
    """The request, for a generation that this engine can make."""
    request: dict[str, Any] = {
        "mode": asked.mode if asked.action else "video",
        "prompt": asked.prompt if asked.action else _with_templates(asked, size, asked.prompt, is_negative=False),
        "negative_prompt": asked.negative_prompt
        if asked.action
        else _with_templates(asked, size, asked.negative_prompt, is_negative=True),
        "width": size.width,
        "height": size.height,
        "num_frames": asked.num_frames,
        "fps": asked.fps,
        "steps": asked.steps,
        "guidance_scale": asked.guidance_scale,
        "seed": asked.seed,
        "sound": asked.sound,
        "frames": None if given.frames is None else str(given.frames),
        "condition_frames": asked.conditioning.frames if asked.conditioning else [0] if given.frames else [],
    }
    if settings := asked.action:
        assert asked.resolution is not None
        request["action"] = {
            "domain_name": settings.domain_name,
            "chunk_size": settings.chunk_size,
            "width": settings.width,
            "view_point": settings.view_point,
            "tier": asked.resolution.removesuffix("p"),
            "rows": given.actions,
        }
    return request


def _with_templates(asked: Generation, size: Size, text: str, *, is_negative: bool) -> str:
    assert asked.num_frames is not None and asked.fps is not None
    no = "not " if is_negative else ""
    if asked.use_duration_template:
        seconds = asked.num_frames / asked.fps
        text = _behind(text, f"The video is {no}{seconds:.1f} seconds long and is {no}of {asked.fps:.0f} FPS.")
    if asked.use_resolution_template:
        text = _behind(text, f"This video is {no}of {size.height}x{size.width} resolution.")
    return text


def _behind(text: str, sentence: str) -> str:
    text = text.rstrip(".")
    return f"{text}. {sentence}" if text else sentence
