"""What a generator can make: modes, what each looks at, and NVIDIA's own settings for each.

Steps, guidance with its interval, and flow shift of images are vLLM-Omni's (`pipeline_cosmos3.py`, 0.30.0), of
everything else Cosmos Framework's (`cosmos_framework/inference/defaults/*/sample_args.json` at 5eee9ed, and
`_TRANSFER_DEFAULTS` in its `args.py`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cosmos_batch.catalogue.formats import IMAGE_EXTENSIONS, VIDEO_EXTENSIONS
from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.tasks import Medium

Mode = Literal["t2i", "t2v", "i2v", "v2v", "transfer", "forward_dynamics", "inverse_dynamics", "policy"]


@dataclass(frozen=True)
class ModeRules:
    """Of one mode.

    Attributes
    ----------
    title
        For a person.
    inputs
        The kinds of file that it looks at; none for text modes.
    input_optional
        Whether it runs without a file too.
    sound
        Whether it can make sound.
    action
        Whether it reads or makes actions.
    guidance_interval
        Timesteps, of 1000 at the start, in which there is guidance; None: in all of them.
    """

    title: str
    inputs: tuple[Medium, ...]
    steps: int
    guidance_scale: float
    flow_shift: float
    input_optional: bool = False
    sound: bool = False
    action: bool = False
    guidance_interval: tuple[float, float] | None = None


MODES: dict[Mode, ModeRules] = {
    "t2i": ModeRules("text to image", (), 50, 7.0, 3.0, guidance_interval=(400.0, 1000.0)),
    "t2v": ModeRules("text to video", (), 35, 6.0, 10.0, sound=True),
    "i2v": ModeRules("image to video", ("image",), 35, 6.0, 10.0, sound=True),
    "v2v": ModeRules("video to video", ("video",), 35, 6.0, 10.0, sound=True),
    "transfer": ModeRules("transfer", ("video",), 35, 3.0, 10.0, input_optional=True),
    "forward_dynamics": ModeRules("forward dynamics", ("image", "video"), 30, 1.0, 10.0, action=True),
    "inverse_dynamics": ModeRules("inverse dynamics", ("video",), 30, 1.0, 10.0, action=True),
    "policy": ModeRules("policy", ("image", "video"), 30, 1.0, 10.0, action=True),
}

# What NVIDIA shows each model doing: Cosmos Framework's docs/inference.md, whose table leaves out that Super continues
# videos, and cookbooks/cosmos3/generator/audiovisual/run_with_diffusers.ipynb of NVIDIA/cosmos at 8ef19d3, which has it
# do so (`v2v_super_noaudio`, `v2vs_super`). Of actions and transfer both show Nano alone.
MODES_OF_PIPELINE: dict[str, tuple[Mode, ...]] = {
    "cosmos3-nano": tuple(MODES),
    "cosmos3-super": ("t2i", "t2v", "i2v", "v2v"),
    "cosmos3-super-text2image": ("t2i",),
    "cosmos3-super-image2video": ("i2v",),
}

# What an input means, where no mode is said.
_MEANT: dict[Medium | None, tuple[Mode, ...]] = {None: ("t2v", "t2i"), "image": ("i2v",), "video": ("v2v",)}

# By the names of Cosmos Framework, where they are not ours; compared without what separates words.
_OTHER_NAMES: dict[str, Mode] = {
    "text2image": "t2i",
    "text2video": "t2v",
    "image2video": "i2v",
    "video2video": "v2v",
    "wam": "policy",
    "videotransfer": "transfer",
    **{re.sub("_", "", name): name for name in MODES},
}


def extensions_of(modes: Sequence[Mode]) -> tuple[str, ...]:
    """Of the files that modes look at; none where all start from text."""
    media = {medium for mode in modes for medium in MODES[mode].inputs}
    return (*(VIDEO_EXTENSIONS if "video" in media else ()), *(IMAGE_EXTENSIONS if "image" in media else ()))


def read_mode(name: str) -> str:
    """Our name of a mode that may be written as elsewhere (`text-to-video`, `wam`); else the name as it is."""
    squeezed = re.sub(r"[^a-z0-9]", "", name.lower())
    return next((_OTHER_NAMES[one] for one in (squeezed, squeezed.replace("to", "2")) if one in _OTHER_NAMES), name)


def settle_mode(said: Mode | None, pipeline: Pipeline, medium: Medium | None) -> Mode:
    """The mode that was said, or the one that the input means. Raises Failure where pipeline or input do not fit."""
    mode = said or _implied(pipeline, medium)
    offered = MODES_OF_PIPELINE[pipeline.id]
    if mode not in offered:
        can = [name for name, modes in MODES_OF_PIPELINE.items() if mode in modes]
        raise Failure(
            "InvalidInput",
            f"mode: {pipeline.id} does not do {mode} ({MODES[mode].title}).",
            f"Use {' or '.join(can)} for it, or one of its own modes: {', '.join(offered)}.",
        )
    _refuse_input(mode, medium)
    return mode


def pipeline_for(enabled: Sequence[str], said: Mode | None, medium: Medium | None) -> str | None:
    """Of the enabled pipelines, smallest first, the first that makes what is asked for; None if none does."""
    meant = (said,) if said else _MEANT[medium]
    return next((name for mode in meant for name in enabled if mode in MODES_OF_PIPELINE.get(name, ())), None)


def _implied(pipeline: Pipeline, medium: Medium | None) -> Mode:
    """`COSMOS3_PROMPT` on an image means image to video, on a video video to video."""
    offered = MODES_OF_PIPELINE[pipeline.id]
    return offered[0] if len(offered) == 1 else _MEANT[medium][0]


def _refuse_input(mode: Mode, medium: Medium | None) -> None:
    rules = MODES[mode]
    wanted = " or ".join(f"{'an' if kind == 'image' else 'a'} {kind}" for kind in rules.inputs)
    if medium is None and rules.inputs and not rules.input_optional:
        raise Failure("InvalidInput", f"input: {mode} looks at {wanted}, and there is none.", "Name the file.")
    if medium is not None and medium not in rules.inputs:
        others = [name for name, other in MODES.items() if medium in other.inputs]
        problem = f"it looks at {wanted}" if rules.inputs else "it starts from text alone"
        raise Failure(
            "InvalidInput",
            f"input: is {'an image' if medium == 'image' else 'a video'}, and the mode is {mode}: {problem}.",
            f"Use another file, or one of the modes for it: {', '.join(others)}.",
        )
