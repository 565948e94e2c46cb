"""Recognize the models that NVIDIA distilled to a few fixed steps, by their names.

`Cosmos3-Super-Text2Image-4Step` and `Cosmos3-Super-Image2Video-4Step` denoise in four steps at fixed noise levels and
without guidance (`fixed_step_sampler_config` of their scheduler). With another scheduler, other steps or guidance they
generate noise without an error, so everything about a job follows from whether its model is distilled.
"""

import re

from cosmos_batch.catalogue.generation import Mode

# The second pattern also matches `Cosmos3-Nano-Distilled` of Cosmos Framework's own tests.
_STEPS_IN_A_NAME = re.compile(r"[-_](\d+)[-_]?steps?(?![a-z0-9])", re.IGNORECASE)
_DISTILLED_IN_A_NAME = re.compile(r"[-_]distilled(?![a-z0-9])", re.IGNORECASE)

# vLLM-Omni refuses the other modes (`_validate_distilled_generation_mode` in `pipeline_cosmos3.py`, 0.30.0), and NVIDIA
# publishes no distilled model for them.
DISTILLED_MODES: tuple[Mode, ...] = ("t2i", "i2v")


def fixed_steps_of(model: str) -> int | None:
    """Return the number of steps that a model is distilled to, by its id on the Hub or the path of its folder.

    None if its name does not say that it is distilled.

    >>> fixed_steps_of("nvidia/Cosmos3-Super-Text2Image-4Step@main")
    4
    """
    named = _STEPS_IN_A_NAME.search(_last_part(model))
    return int(named[1]) if named else None


def lacks_number_of_steps(model: str) -> bool:
    """Return whether a model's name says that it is distilled, and not to how many steps."""
    return fixed_steps_of(model) is None and _DISTILLED_IN_A_NAME.search(_last_part(model)) is not None


def _last_part(model: str) -> str:
    return model.partition("@")[0].rstrip("/").rpartition("/")[2]
