"""Building the request to our PhyAI driver from a generation: the finished texts, and pictures as arrays.

PhyAI's own rules for size, duration and system prompt are not used; `captions` writes all texts.
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
    """The inputs that condition a generation.

    Attributes
    ----------
    frames
        A `.npy` file with an array of RGB, uint8, [T, H, W, 3], of exactly the generation's size; None without an
        input.
    actions
        The rows of a `forward_dynamics` job; None otherwise.
    """

    frames: Path | None = None
    actions: list[list[float]] | None = None


def write_request_inputs(prepared: PreparedGeneration, folder: Path) -> RequestInputs:
    """Write the frames into `folder`."""
    if not prepared.frames:
        return RequestInputs(actions=prepared.actions)
    frames = folder / "input.npy"
    np.save(frames, np.stack(prepared.frames))
    return RequestInputs(frames, prepared.actions)


def request_for(generation: Generation, size: Size, inputs: RequestInputs) -> dict[str, Any]:
    """Return the request for a generation that this engine can do (see its abilities)."""
    captions = captions_for(generation, size)
    request: dict[str, Any] = {
        "mode": generation.mode if generation.action else "video",
        "prompt": captions.prompt,
        "negative_prompt": captions.negative,
        "system_prompt": captions.system,
        "width": size.width,
        "height": size.height,
        "num_frames": generation.num_frames,
        "fps": generation.fps,
        "steps": generation.steps,
        "guidance_scale": generation.guidance_scale,
        "seed": generation.seed,
        "sound": generation.sound,
        "frames": None if inputs.frames is None else str(inputs.frames),
        "condition_frames": generation.conditioning.frames if generation.conditioning else [0] if inputs.frames else [],
    }
    if settings := generation.action:
        request["action"] = {
            "domain_name": settings.domain_name,
            "chunk_size": settings.chunk_size,
            "width": settings.width,
            "rows": inputs.actions,
        }
    return request
