"""Refuse what a request asks of a distilled model and the model cannot do.

Its steps and noise levels are fixed, and it has no guidance, so that a negative prompt has no effect.
"""

from collections.abc import Iterator

from cosmos_batch.catalogue.distillation import DISTILLED_MODES
from cosmos_batch.catalogue.generation import MODES, Mode
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.parameters import GenerationParameters


def refuse_undistilled_request(parameters: GenerationParameters, mode: Mode, fixed_steps: int) -> None:
    """Raise Failure (InvalidInput) for the first field that a model with so many fixed steps cannot follow."""
    for problem, remedy in _problems(parameters, mode, fixed_steps):
        raise Failure("InvalidInput", problem, remedy)


def _problems(parameters: GenerationParameters, mode: Mode, fixed_steps: int) -> Iterator[tuple[str, str]]:
    model = f"the model of this pipeline is distilled to {fixed_steps} fixed steps"
    if mode not in DISTILLED_MODES:
        yield (
            f"mode: {model}, and distilled models do not do {mode} ({MODES[mode].title}).",
            f"Use {' or '.join(DISTILLED_MODES)}, or a pipeline whose model is not distilled.",
        )
    if parameters.steps not in (None, fixed_steps):
        yield f"steps: {model}, so that {parameters.steps} are not possible.", f"Leave steps out, or set {fixed_steps}."
    if parameters.guidance_scale not in (None, 1):
        yield (
            f"guidanceScale: {model} without guidance, so that {parameters.guidance_scale:g} is not possible.",
            "Leave guidanceScale out, or set 1.",
        )
    if parameters.flow_shift not in (None, 1):
        yield f"flowShift: {model} at fixed noise levels, which nothing shifts.", "Leave flowShift out, or set 1."
    if parameters.negative_prompt:
        yield (
            f"negativePrompt: {model} without guidance, so that it has no effect.",
            "Leave it out, and describe in the prompt what shall be seen.",
        )
    if parameters.sound:
        yield f"sound: {model}, and distilled models generate none.", "Leave sound out."
