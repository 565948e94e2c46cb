"""Distilled checkpoints, which none of the engines here runs as they were made.

NVIDIA's `Cosmos3-Super-Text2Image-4Step` and `Cosmos3-Super-Image2Video-4Step` denoise in four fixed steps without
guidance (`fixed_step_sampler_config` of their scheduler). With another scheduler, other steps or guidance they make
noise without an error, and vLLM-Omni, which knows them, passes over what a request says of steps and guidance.
"""

import re
from collections.abc import Mapping

# `Cosmos3-Super-Text2Image-4Step`, or `Cosmos3-Nano-Distilled` of Cosmos Framework's own tests.
_NAME = re.compile(r"[-_](\d+[-_]?steps?|distilled)(?![a-z0-9])", re.IGNORECASE)
# By its scheduler's class vLLM-Omni knows one (`pipeline_cosmos3.py`, 0.30.0); the others have UniPC.
_SCHEDULER = "FlowMatchEulerDiscreteScheduler"

WHY_NOT = "is distilled to a few fixed steps, which no engine of this release runs as it was made"
WHAT_TO_DO = "Use the checkpoint that it was distilled from, such as nvidia/Cosmos3-Super-Text2Image."


def is_distilled_name(model: str) -> bool:
    """Whether a model's name, its id on the Hub or the path of its folder, says that it is distilled."""
    return _NAME.search(model.partition("@")[0].rstrip("/").rpartition("/")[2]) is not None


def is_distilled_scheduler(scheduler: Mapping[str, object]) -> bool:
    """Whether a checkpoint's `scheduler/scheduler_config.json` is that of a distilled one."""
    return scheduler.get("_class_name") == _SCHEDULER or "fixed_step_sampler_config" in scheduler
