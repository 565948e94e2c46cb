"""A generation as what our driver of PhyAI is sent: texts as the model reads them, and pictures as arrays.

PhyAI would write size and duration by rules of its own, and system prompts in words of its own.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cosmos_batch.catalogue.generation import Size
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.engines.generator.captions import captions_for
from cosmos_batch.engines.generator.inputs import PreparedGeneration


@dataclass(frozen=True)
class RequestInputs:
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


def write_request_inputs(prepared: PreparedGeneration, folder: Path) -> RequestInputs:
    """Write the frames into a folder."""
    if not prepared.frames:
        return RequestInputs(actions=prepared.actions)
    frames = folder / "given.npy"
    np.save(frames, np.stack(prepared.frames))
    return RequestInputs(frames, prepared.actions)


def request_for(asked: Generation, size: Size, given: RequestInputs) -> dict[str, Any]:
    """The request, for a generation that this engine can make."""
    captions = captions_for(asked, size)
    request: dict[str, Any] = {
        "mode": asked.mode if asked.action else "video",
        "prompt": captions.prompt,
        "negative_prompt": captions.negative,
        "system_prompt": captions.system,
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
        request["action"] = {
            "domain_name": settings.domain_name,
            "chunk_size": settings.chunk_size,
            "width": settings.width,
            "rows": given.actions,
        }
    return request
