"""Turn a request's parameters into a generation: NVIDIA's values for what is absent, or a refusal with its reason."""

import hashlib
from collections.abc import Sequence
from typing import Any

from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.catalogue.formats import Medium
from cosmos_batch.catalogue.generation import (
    DEFAULT_FPS,
    DOMAINS,
    FRAME_STEP,
    MODES,
    TRAINED_FPS,
    Mode,
    ModeRules,
)
from cosmos_batch.catalogue.pipelines import GENERATORS, Pipeline
from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.generation import Conditioning, Generation, Transfer
from cosmos_batch.contract.generation.parameters import NAMES, GenerationParameters
from cosmos_batch.contract.generation.serving import Serving
from cosmos_batch.planning.generation.abilities import (
    refuse_large_generation,
    refuse_several_uploads,
    refuse_unable_engine,
    refuse_undistilled_request,
)
from cosmos_batch.planning.generation.actions import settle_action
from cosmos_batch.planning.generation.dimensions import (
    notes_on_short_video,
    settle_frames,
    settle_size,
    tier_of_admitted,
)
from cosmos_batch.planning.generation.prompts import Prompt, settle_prompts
from cosmos_batch.planning.generation.transfer import hint_defaults, settle_transfer

# The mode that an input stands for, if the request names none: the first one that the pipeline has.
_MODES_OF_INPUT: dict[Medium | None, tuple[Mode, ...]] = {None: ("t2v", "t2i"), "image": ("i2v",), "video": ("v2v",)}

# Parameters that have a meaning in some modes only. In another mode they are refused rather than ignored.
_MODES_OF_PARAMETER: dict[str, tuple[Mode, ...]] = {
    "use_resolution_template": ("t2i", "t2v", "i2v", "v2v", "transfer"),
    "use_duration_template": ("t2v", "i2v", "v2v", "transfer"),
    "condition_frames": ("v2v",),
    "condition_keep": ("v2v",),
    "controls": ("transfer",),
    "control_guidance": ("transfer",),
    "frames_per_chunk": ("transfer",),
    "domain_name": ("forward_dynamics", "inverse_dynamics", "policy"),
    "action_chunk_size": ("forward_dynamics", "inverse_dynamics", "policy"),
    "raw_action_dim": ("forward_dynamics", "inverse_dynamics", "policy"),
    "view_point": ("forward_dynamics", "inverse_dynamics", "policy"),
    "action": ("forward_dynamics",),
    "action_path": ("forward_dynamics",),
}


def settle(
    parameters: GenerationParameters,
    prompt: Prompt | None,
    pipeline: Pipeline,
    medium: Medium | None,
    job_id: str,
    serving: Serving,
) -> Generation:
    """Decide everything about a generation that can be decided before its input is decoded.

    The same job always settles to the same generation, its seed included.
    `medium` is the kind of the input file, None without one. Raises Failure (InvalidInput) if the model, the pipeline,
    its engine or the memory of its workers cannot do what the request asks for.
    """
    mode = _settle_mode(parameters.mode, pipeline, medium)
    _refuse_parameters_of_other_modes(parameters, mode)
    if serving.fixed_steps is not None:
        refuse_undistilled_request(parameters, mode, serving.fixed_steps)
    rules = pipeline.rules(mode)
    prompts = settle_prompts(parameters, prompt, mode, serving.upsamples, guided=serving.fixed_steps is None)
    resolution, size = settle_size(parameters, mode, pipeline, medium, serving.max_resolution)
    tier = resolution or tier_of_admitted(size)
    action = settle_action(parameters, mode, tier) if rules.action else None
    transfer = settle_transfer(parameters, tier, has_input=medium is not None) if mode == "transfer" else None
    frames = action.frames if action else settle_frames(parameters.num_frames, mode, tier, pipeline)
    fps = parameters.fps or (DOMAINS[action.domain_name].fps if action else None if transfer else DEFAULT_FPS)
    generation = Generation(
        mode=mode,
        **prompts,
        resolution=None if size else resolution,
        width=size.width if size else None,
        height=size.height if size else None,
        num_frames=frames,
        fps=fps,
        **_settle_sampling(parameters, rules, transfer, serving.fixed_steps),
        seed=draw_seed(job_id) if parameters.seed is None else parameters.seed,
        sound=_settle_sound(parameters.sound, mode, pipeline),
        use_system_prompt=rules.system_prompt,
        guardrails=_settle_guardrails(parameters.guardrails, serving, pipeline),
        conditioning=_settle_conditioning(parameters, frames) if mode == "v2v" else None,
        action=action,
        transfer=transfer,
        image_format=parameters.image_format,
        preview=parameters.preview,
        contact_sheet=parameters.contact_sheet,
        notes=_notes(parameters.num_frames, frames, fps, mode),
    )
    _refuse_infeasible(generation, serving, pipeline)
    return generation


def choose_pipeline(enabled: Sequence[str], mode: Mode | None, medium: Medium | None) -> str | None:
    """Return the first of the enabled pipelines, smallest first, that has the mode or one that the input stands for.

    None if no pipeline has any of them.
    """
    modes = (mode,) if mode else _MODES_OF_INPUT[medium]
    modes_of = {pipeline.id: pipeline.modes for pipeline in GENERATORS}
    return next((name for mode in modes for name in enabled if mode in modes_of.get(name, ())), None)


def draw_seed(job_id: str) -> int:
    """Return a seed for a job whose request has none: random among jobs, and the same whenever one job is planned."""
    return int.from_bytes(hashlib.sha256(f"seed of {job_id}".encode()).digest()[:4], "big")


def _settle_mode(mode: Mode | None, pipeline: Pipeline, medium: Medium | None) -> Mode:
    """Return the request's mode, or the one that the input stands for. Raises Failure if the pipeline lacks it."""
    offered = pipeline.modes
    if mode is None:
        mode = offered[0] if len(offered) == 1 else _MODES_OF_INPUT[medium][0]
    if mode not in offered:
        able = [generator.id for generator in GENERATORS if mode in generator.modes]
        raise Failure(
            "InvalidInput",
            f"mode: {pipeline.id} does not do {mode} ({MODES[mode].title}).",
            f"Use {' or '.join(able)} for it, or one of this pipeline's modes: {', '.join(offered)}.",
        )
    refuse_input(mode, medium)
    return mode


def refuse_input(mode: Mode, medium: Medium | None) -> None:
    """Raise Failure (InvalidInput) if a mode does not start from an input of this kind; None is no input at all."""
    rules = MODES[mode]
    expected = " or ".join(f"{'an' if kind == 'image' else 'a'} {kind}" for kind in rules.inputs)
    if medium is None and rules.inputs and not rules.input_optional:
        raise Failure("InvalidInput", f"input: {mode} starts from {expected}, and there is none.", "Name it as input.")
    if medium is not None and medium not in rules.inputs:
        others = [name for name, other in MODES.items() if medium in other.inputs]
        raise Failure(
            "InvalidInput",
            f"input: is {'an image' if medium == 'image' else 'a video'}, and mode {mode} starts from "
            f"{expected or 'text alone'}.",
            f"Use another file, or one of the modes for it: {', '.join(others)}.",
        )


def _refuse_parameters_of_other_modes(parameters: GenerationParameters, mode: Mode) -> None:
    json_names = {name: json_name for json_name, name in NAMES.items()}
    for name, modes in _MODES_OF_PARAMETER.items():
        value = getattr(parameters, name)
        if value is not None and value is not False and mode not in modes:
            raise Failure(
                "InvalidInput",
                f"{json_names[name]}: has no meaning in mode {mode}, only in {', '.join(modes)}.",
                f"Leave {json_names[name]} out, or set mode.",
            )


def _settle_sampling(
    parameters: GenerationParameters, rules: ModeRules, transfer: Transfer | None, fixed_steps: int | None
) -> dict[str, Any]:
    """Return the fields of a generation that say how it is denoised."""
    if fixed_steps is not None:
        return {"distilled": True, "steps": fixed_steps, "guidance_scale": 1.0, "flow_shift": 1.0}
    default = hint_defaults(transfer.controls).guidance_scale if transfer else rules.guidance_scale
    return {
        "steps": parameters.steps or rules.steps,
        "guidance_scale": default if parameters.guidance_scale is None else parameters.guidance_scale,
        "flow_shift": parameters.flow_shift or rules.flow_shift,
    }


def _settle_sound(sound: bool | None, mode: Mode, pipeline: Pipeline) -> bool:
    if sound and not MODES[mode].sound:
        modes = ", ".join(name for name, rules in MODES.items() if rules.sound)
        raise Failure("InvalidInput", f"sound: mode {mode} has none.", f"Leave it out, or use one of: {modes}.")
    if sound and not pipeline.rules(mode).sound:
        raise Failure("InvalidInput", f"sound: {pipeline.id} generates none.", "Leave it out, or use another pipeline.")
    return bool(sound)


def _settle_guardrails(guardrails: bool | None, serving: Serving, pipeline: Pipeline) -> bool:
    if guardrails is False and serving.guardrails_required:
        raise Failure(
            "InvalidInput",
            f"guardrails: {pipeline.id} requires them, so that no request can switch them off.",
            f"Leave guardrails out. Whoever deploys the pipeline can set guardrails of {pipeline.config_key} in "
            "config.json to true, which lets requests switch them off.",
        )
    if guardrails and not serving.guardrails:
        raise Failure(
            "InvalidInput",
            f"guardrails: {pipeline.id} is configured without any, so none can be switched on.",
            f"Set guardrails of {pipeline.config_key} in config.json and deploy, or leave them out.",
        )
    return serving.guardrails if guardrails is None else guardrails


def _settle_conditioning(parameters: GenerationParameters, frames: int | None) -> Conditioning:
    """Settle which frames of the input video are kept: by default the first five, which are two latent frames."""
    conditioning_frames = [0, 1] if parameters.condition_frames is None else parameters.condition_frames
    assert frames is not None, "only a transfer takes its frames from its control videos"
    last = (frames - 1) // FRAME_STEP
    if len(set(conditioning_frames)) != len(conditioning_frames) or not set(range(last + 1)) > set(conditioning_frames):
        raise Failure(
            "InvalidInput",
            f"conditionFrames: {conditioning_frames} must be latent frames from 0 to {last}, for {frames} frames.",
            "Name each once and leave one out to be generated; 0 is the first frame, each further one stands for four.",
        )
    return Conditioning(frames=conditioning_frames, keep=parameters.condition_keep or "first")


def _refuse_infeasible(generation: Generation, serving: Serving, pipeline: Pipeline) -> None:
    """Raise Failure for a consistent generation that the pipeline's engine or GPUs cannot do."""
    refuse_unable_engine(serving.engine, generation)
    if serving.by_url and generation.transfer and GENERATOR_ABILITIES[serving.engine].one_upload:
        refuse_several_uploads(generation.transfer.controls)
    refuse_large_generation(generation, serving, pipeline)


def _notes(requested: int | None, frames: int | None, fps: float | None, mode: Mode) -> list[str]:
    notes = []
    if requested not in (None, frames):
        notes.append(f"{counted(requested, 'frame')} became {frames}: the model generates 4k+1 frames.")
    if frames is not None and not MODES[mode].action:  # NVIDIA's own chunks of actions are shorter
        notes += notes_on_short_video(frames)
    if fps is not None and not TRAINED_FPS[0] <= fps <= TRAINED_FPS[1]:
        notes.append(
            f"The model was trained on {TRAINED_FPS[0]} to {TRAINED_FPS[1]} frames per second, not on {fps:g}."
        )
    return notes
