"""What a caller said becomes a generation: NVIDIA's values where nothing was said, or a reason why not."""

import hashlib
from typing import Any, TypeVar

from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.actions import (
    Domain,
    checked_actions,
    refuse_large,
    settle_chunk,
    settle_domain,
    settle_width,
)
from cosmos_batch.contract.generation.controls import (
    CHUNK_FRAMES,
    CHUNK_FRAMES_OF,
    CONTROL_GUIDANCE,
    GUIDANCE,
    TRANSFER_FRAMES_LIMIT,
    only_hint,
    refuse_several,
    settle_controls,
)
from cosmos_batch.contract.generation.engines import refuse_engine
from cosmos_batch.contract.generation.modes import MODES, Mode, settle_mode
from cosmos_batch.contract.generation.parameters import NAMES, GenerationParameters
from cosmos_batch.contract.generation.plan import refuse_job
from cosmos_batch.contract.generation.prompts import (
    default_negative_prompt,
    is_structured,
    prompt_text,
    refuse_upsampling,
)
from cosmos_batch.contract.generation.schema import ActionSettings, Conditioning, Generation, Transfer
from cosmos_batch.contract.generation.serving import Serving
from cosmos_batch.contract.generation.shapes import settle_size, tier_of_admitted
from cosmos_batch.contract.generation.sizes import (
    FRAME_STEP,
    Resolution,
    refuse_frames,
    whole_frames,
)
from cosmos_batch.contract.tasks import Medium

Value = TypeVar("Value")

FRAMES, FPS = 189, 24.0
FPS_TRAINED = (10, 30)

# What means something in some modes only: to say it elsewhere is a mistake, which is told and not passed over.
_ONLY: dict[str, tuple[Mode, ...]] = {
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
    said: GenerationParameters,
    prompt: str | dict[str, Any] | None,
    pipeline: Pipeline,
    medium: Medium | None,
    job_id: str,
    serving: Serving,
) -> Generation:
    """Decide everything that can be decided before the input is seen; the same for the same job. Raises Failure.

    `medium` is the input's kind.
    """
    generation = _settled(said, prompt, pipeline, medium, job_id, serving)
    refuse_engine(serving.engine, generation)
    if serving.by_url and generation.transfer:
        refuse_several(generation.transfer.controls)
    refuse_job(generation, serving, pipeline)
    return generation


def _settled(
    said: GenerationParameters,
    prompt: str | dict[str, Any] | None,
    pipeline: Pipeline,
    medium: Medium | None,
    job_id: str,
    serving: Serving,
) -> Generation:
    mode = settle_mode(said.mode, pipeline, medium)
    _refuse_strays(said, mode)
    rules = MODES[mode]
    words = _settle_words(said, prompt, mode, serving.upsamples)
    resolution, size = settle_size(said, mode, pipeline, medium, serving.max_resolution)
    tier = resolution or tier_of_admitted(size)
    domain = settle_domain(said.domain_name) if rules.action else None
    action = _settle_action(said, mode, domain, tier) if domain else None
    transfer = _settle_transfer(said, medium, tier) if mode == "transfer" else None
    frames = action.chunk_size + 1 if action else _settle_frames(said, mode, tier)
    fps = said.fps or (domain.fps if domain else None if transfer else FPS)
    return Generation(
        mode=mode,
        **words,
        resolution=None if size else resolution,
        width=size.width if size else None,
        height=size.height if size else None,
        num_frames=frames,
        fps=fps,
        steps=_or(said.steps, rules.steps),
        guidance_scale=_or(said.guidance_scale, _guidance(mode, transfer)),
        flow_shift=_or(said.flow_shift, rules.flow_shift),
        seed=drawn_seed(job_id) if said.seed is None else said.seed,
        sound=_settle_sound(said, mode),
        guardrails=_settle_guardrails(said, serving, pipeline),
        conditioning=_settle_conditioning(said, frames) if mode == "v2v" else None,
        action=action,
        transfer=transfer,
        image_format=said.image_format,
        preview=said.preview,
        contact_sheet=said.contact_sheet,
        notes=_notes(said, frames, fps),
    )


def _settle_words(
    said: GenerationParameters, prompt: str | dict[str, Any] | None, mode: Mode, upsamples: bool
) -> dict[str, Any]:
    """Both prompts, and what is written beside them. NVIDIA's JSON says size and duration itself."""
    if said.upsample_prompt:
        refuse_upsampling(mode, upsamples)
    text = prompt_text("prompt", "" if prompt is None else prompt)
    if not text.strip():
        raise Failure("InvalidInput", "prompt: is missing.", "Say what to make, in words or as NVIDIA's JSON.")
    negative = said.negative_prompt
    upsampled = said.upsample_prompt and not is_structured(text)
    templates = not (MODES[mode].action or upsampled or is_structured(text))
    return {
        "prompt": text,
        "upsample_prompt": upsampled,
        "negative_prompt": default_negative_prompt(mode)
        if negative is None
        else prompt_text("negativePrompt", negative),
        "max_sequence_length": said.max_sequence_length,
        "use_resolution_template": _or(said.use_resolution_template, templates),
        "use_duration_template": _or(said.use_duration_template, templates and mode != "t2i"),
    }


def drawn_seed(job_id: str) -> int:
    """A seed for who gave none: by chance among jobs, and the same however often one is planned."""
    return int.from_bytes(hashlib.sha256(f"seed of {job_id}".encode()).digest()[:4], "big")


def _or(said: Value | None, default: Value) -> Value:
    return default if said is None else said


def _refuse_strays(said: GenerationParameters, mode: Mode) -> None:
    alias = {name: alias for alias, name in NAMES.items()}
    for name, modes in _ONLY.items():
        value = getattr(said, name)
        if value is not None and value is not False and mode not in modes:
            raise Failure(
                "InvalidInput",
                f"{alias[name]}: means nothing to {mode}, but to {', '.join(modes)}.",
                f"Leave {alias[name]} out, or set mode.",
            )


def _settle_frames(said: GenerationParameters, mode: Mode, tier: Resolution) -> int | None:
    asked = said.num_frames
    if mode == "t2i":
        if asked not in (None, 1):
            raise Failure("InvalidInput", f"numFrames: {asked:,} of an image.", "Leave it out, or use mode t2v.")
        return 1
    if mode == "transfer":  # made chunk by chunk, so that its length is no matter of memory
        if asked is not None and not 2 <= asked <= TRANSFER_FRAMES_LIMIT:
            raise Failure(
                "InvalidInput", f"numFrames: {asked:,} is not possible.", f"Use 5 to {TRANSFER_FRAMES_LIMIT:,}."
            )
        return None if asked is None else whole_frames(asked)
    frames = FRAMES if asked is None else asked
    refuse_frames(frames, tier)
    return whole_frames(frames)


def _settle_action(said: GenerationParameters, mode: Mode, domain: Domain, tier: Resolution) -> ActionSettings:
    if said.num_frames is not None:
        raise Failure("InvalidInput", "numFrames: is the chunk's and one more.", "Say actionChunkSize instead.")
    assert said.domain_name is not None  # settle_domain has seen it
    width = settle_width(said.domain_name, domain, said.raw_action_dim, said.action)
    actions = None if said.action is None else checked_actions(said.action, width)
    if actions is not None:
        refuse_large(actions)
    if mode == "forward_dynamics" and (actions is None) == (said.action_path is None):
        problem = "is missing" if actions is None else "stands beside actionPath"
        raise Failure("InvalidInput", f"action: {problem}.", "Send the actions as action, or name their file: one way.")
    return ActionSettings(
        domain_name=said.domain_name,
        width=width,
        chunk_size=settle_chunk(said.action_chunk_size, None if actions is None else len(actions), domain, tier),
        view_point=said.view_point or "ego_view",
        actions=actions,
        path=said.action_path,
    )


def _settle_transfer(said: GenerationParameters, medium: Medium | None, tier: Resolution) -> Transfer:
    controls = settle_controls(said.controls, has_input=medium is not None)
    hint = only_hint(controls)
    chunk = whole_frames(said.frames_per_chunk or CHUNK_FRAMES_OF.get(hint, CHUNK_FRAMES))
    refuse_frames(chunk, tier, "framesPerChunk")
    return Transfer(
        controls=controls, control_guidance=_or(said.control_guidance, CONTROL_GUIDANCE[hint]), frames_per_chunk=chunk
    )


def _guidance(mode: Mode, transfer: Transfer | None) -> float:
    own = MODES[mode].guidance_scale
    return GUIDANCE.get(only_hint(transfer.controls), own) if transfer else own


def _settle_sound(said: GenerationParameters, mode: Mode) -> bool:
    if said.sound and not MODES[mode].sound:
        modes = ", ".join(name for name, rules in MODES.items() if rules.sound)
        raise Failure("InvalidInput", f"sound: {mode} makes none.", f"Leave it out, or use one of: {modes}.")
    return bool(said.sound)


def _settle_guardrails(said: GenerationParameters, serving: Serving, pipeline: Pipeline) -> bool:
    if said.guardrails is False and serving.guardrails_required:
        raise Failure(
            "InvalidInput",
            f"guardrails: {pipeline.id} requires them, so that no request can switch them off.",
            f"Leave guardrails out. Whoever deploys the pipeline can set guardrails of {pipeline.config_key} in "
            "config.json to true, which lets requests switch them off.",
        )
    if said.guardrails and not serving.guardrails:
        raise Failure(
            "InvalidInput",
            f"guardrails: {pipeline.id} is configured without any, so none can be switched on.",
            f"Set guardrails of {pipeline.config_key} in config.json and deploy, or leave them out.",
        )
    return serving.guardrails if said.guardrails is None else said.guardrails


def _settle_conditioning(said: GenerationParameters, frames: int | None) -> Conditioning:
    kept = [0, 1] if said.condition_frames is None else said.condition_frames
    assert frames is not None
    latent = (frames - 1) // FRAME_STEP
    if len(set(kept)) != len(kept) or not set(range(latent + 1)) > set(kept):
        raise Failure(
            "InvalidInput",
            f"conditionFrames: {kept} are not some of the latent frames 0 to {latent} of {frames} frames.",
            "Each counts once and one is left to make; 0 is the first frame, each other stands for four.",
        )
    return Conditioning(frames=kept, keep=said.condition_keep or "first")


def _notes(said: GenerationParameters, frames: int | None, fps: float | None) -> list[str]:
    notes = []
    if said.num_frames not in (None, frames):
        notes.append(f"{said.num_frames} frames became {frames}: the model makes 4k+1.")
    if fps is not None and not FPS_TRAINED[0] <= fps <= FPS_TRAINED[1]:
        notes.append(f"The model was trained on {FPS_TRAINED[0]} to {FPS_TRAINED[1]} frames a second, not on {fps:g}.")
    return notes
