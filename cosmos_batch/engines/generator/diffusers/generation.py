"""Run one generation with Diffusers' Cosmos 3 pipelines: the calls of each mode, steps, and verdicts of guardrails."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Literal

import numpy as np
from PIL import Image

from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.guardrails import blocked, unjudged
from cosmos_batch.engines.checkpoints import refuse_other_steps
from cosmos_batch.engines.generator.captions import captions_for, with_sequence_length
from cosmos_batch.engines.generator.diffusers.checkpoint import LoadedCheckpoint
from cosmos_batch.engines.generator.diffusers.frames import decoded_frames, frames_of
from cosmos_batch.engines.generator.guardrails import guardrails_missing
from cosmos_batch.engines.generator.inputs import Frames, PreparedGeneration, refuse_missing_parts
from cosmos_batch.engines.generator.outputs import GeneratedMedia
from cosmos_batch.engines.strict_guardrails import GuardrailFailed
from cosmos_batch.media import Sound

_REFUSALS: dict[str, Literal["prompt", "output"]] = {
    "Cosmos Guardrail detected unsafe text": "prompt",
    "Cosmos Guardrail detected unsafe content": "output",
}

StepProgress = Callable[[int, int], None]
"""Called with the number of denoising steps done and their total. An exception that it raises ends the generation.

A GPU may still be at work on the last of them, because its work is queued.
"""


def refuse_unsupported(checkpoint: LoadedCheckpoint, generation: Generation) -> None:
    """Raise Failure, before any work, if this checkpoint or this worker lacks something that the generation needs."""
    if generation.guardrails and checkpoint.guardrails is None:
        raise guardrails_missing("Diffusers")
    refuse_other_steps(generation, checkpoint.fixed_steps, checkpoint.name)
    omni = checkpoint.omni
    refuse_missing_parts(generation, sound=omni.sound_tokenizer is not None, actions=omni.transformer.config.action_gen)


def settle_prompt_length(checkpoint: LoadedCheckpoint, prepared: PreparedGeneration) -> PreparedGeneration:
    """Return the generation with `max_sequence_length` as its prompts need it, counted with the checkpoint's tokenizer.

    Raises Failure (InvalidInput) if the request set less.
    """
    tokenizer = checkpoint.omni.text_tokenizer
    return with_sequence_length(prepared, lambda text: len(tokenizer(text, add_special_tokens=False).input_ids))


def generate(checkpoint: LoadedCheckpoint, prepared: PreparedGeneration, progress: StepProgress) -> GeneratedMedia:
    """Generate in the calling thread. The same seed gives the same output.

    Frames are decoded when the caller iterates over them, which it can do once.

    Raises Failure: Blocked if a guardrail refuses the prompt or the output, EngineFailed if it cannot judge them.
    """
    generation = prepared.generation
    with _guardrail_failures(), checkpoint.accelerated_job(generation):
        if generation.transfer:
            return _transfer(checkpoint, prepared, progress)
        if generation.distilled:
            return _distilled(checkpoint, prepared, progress)
        scheduler = _scheduler(checkpoint, generation)
        checkpoint.omni.register_modules(scheduler=scheduler)
        # Guardrails look at the pixels, so with them the pipeline itself decodes.
        in_chunks = checkpoint.accelerations.asynchronous and not generation.guardrails
        result = checkpoint.omni(
            **{**_common(generation), "output_type": "latent" if in_chunks else "pt"},
            **(_action(prepared) if generation.action else _plain(prepared)),
            fps=generation.fps,
            enable_safety_check=generation.guardrails,
            callback_on_step_end=_stepping(generation, _counter(progress, generation.steps)),
        )
    rate = checkpoint.omni.sound_tokenizer.config.sampling_rate if generation.sound else 0
    sound = Sound(_array(result.sound), rate) if generation.sound else None
    actions = _array(result.action[0]) if result.action is not None else None
    frames = decoded_frames(checkpoint.omni, result.video) if in_chunks else frames_of([result.video])
    return GeneratedMedia(frames, sound, actions)


def _common(generation: Generation) -> dict[str, Any]:
    import torch

    return {
        "prompt": generation.prompt,
        "negative_prompt": generation.negative_prompt,
        "num_inference_steps": generation.steps,
        "guidance_scale": generation.guidance_scale,
        "use_system_prompt": generation.use_system_prompt and generation.action is None,
        # A CPU generator gives the same noise on every device.
        "generator": torch.Generator("cpu").manual_seed(generation.seed),
        "output_type": "pt",
    }


def _plain(prepared: PreparedGeneration) -> dict[str, Any]:
    generation = prepared.generation
    arguments: dict[str, Any] = {
        "num_frames": generation.num_frames,
        "height": prepared.size.height,
        "width": prepared.size.width,
        "enable_sound": generation.sound,
        "add_resolution_template": generation.use_resolution_template,
        "add_duration_template": generation.use_duration_template,
    }
    if generation.conditioning:
        conditioning = {"condition_frame_indexes_vision": tuple(generation.conditioning.frames)}
        return {**arguments, **conditioning, "video": _pictures(prepared.frames)}
    return {**arguments, "image": _pictures(prepared.frames)[0]} if prepared.frames else arguments


def _action(prepared: PreparedGeneration) -> dict[str, Any]:
    import torch

    generation, settings = prepared.generation, prepared.generation.action
    assert settings is not None and generation.resolution is not None
    pictures = _pictures(prepared.frames)
    media = {"video": pictures} if generation.mode == "inverse_dynamics" else {"image": pictures[0]}
    condition = import_module("diffusers").CosmosActionCondition(
        mode=generation.mode,
        chunk_size=settings.chunk_size,
        domain_name=settings.domain_name,
        resolution_tier=int(generation.resolution.removesuffix("p")),
        raw_actions=torch.tensor(prepared.actions) if prepared.actions else None,
        view_point=settings.view_point,
        **media,
    )
    return {"action": condition}


def _transfer(checkpoint: LoadedCheckpoint, prepared: PreparedGeneration, progress: StepProgress) -> GeneratedMedia:
    generation, settings = prepared.generation, prepared.generation.transfer
    assert settings is not None and generation.num_frames is not None
    pipeline = checkpoint.modular
    captions = captions_for(generation, prepared.size)  # the modular pipeline adds no templates
    _set_up_modular(pipeline, _scheduler(checkpoint, generation), generation, progress)
    videos = pipeline(
        **{**_common(generation), "prompt": captions.prompt, "negative_prompt": captions.negative},
        control_videos={hint: _pictures(frames) for hint, frames in prepared.controls.items()},
        num_frames=generation.num_frames,
        height=prepared.size.height,
        width=prepared.size.width,
        fps=generation.fps,
        num_video_frames_per_chunk=min(settings.frames_per_chunk, generation.num_frames),
        control_guidance=settings.control_guidance,
        output="videos",
    )
    return GeneratedMedia(frames_of([videos]))


def _distilled(checkpoint: LoadedCheckpoint, prepared: PreparedGeneration, progress: StepProgress) -> GeneratedMedia:
    """Generate with a distilled model. Its scheduler adds new noise after each step, as vLLM-Omni's does."""
    generation, pipeline = prepared.generation, checkpoint.modular
    scheduler: Any = import_module("diffusers").FlowMatchEulerDiscreteScheduler
    scheduler = scheduler.from_config(checkpoint.omni.scheduler.config, stochastic_sampling=True)
    _set_up_modular(pipeline, scheduler, generation, progress)
    arguments = {**_common(generation), **_plain(prepared), "fps": generation.fps}
    for name in ("negative_prompt", "enable_sound"):  # a distilled model has neither
        del arguments[name]
    return GeneratedMedia(frames_of([pipeline(**arguments, output="videos")]))


def _set_up_modular(pipeline: Any, scheduler: Any, generation: Generation, progress: StepProgress) -> None:
    """Give a modular pipeline the scheduler and the guardrails of one job, and have its steps counted."""
    _count_steps(scheduler, _counter(progress, generation.total_steps))
    pipeline.update_components(scheduler=scheduler)
    if generation.guardrails:
        pipeline.enable_safety_checker()
    else:
        pipeline.disable_safety_checker()


def _scheduler(checkpoint: LoadedCheckpoint, generation: Generation) -> Any:
    """Return a new scheduler for one job. NVIDIA's converter saves `use_karras_sigmas`, which NVIDIA's own code does
    not use."""
    scheduler: Any = import_module("diffusers").UniPCMultistepScheduler
    if checkpoint.accelerations.asynchronous:
        # Imported here because it imports Diffusers' schedulers, which must come after `import_torchvision`.
        from cosmos_batch.engines.generator.diffusers.asynchronous import AsynchronousUniPC

        scheduler = AsynchronousUniPC
    return scheduler.from_config(
        checkpoint.omni.scheduler.config, flow_shift=generation.flow_shift, use_karras_sigmas=False
    )


def _stepping(generation: Generation, done: Callable[[], None]) -> Callable[..., dict[str, Any]]:
    """Return a callback for the end of each step, which counts it and sets the next step's guidance scale: 1 outside
    the guidance interval. The first step always lies inside."""

    def end_step(pipeline: Any, index: int, _timestep: Any, _tensors: dict[str, Any]) -> dict[str, Any]:
        done()
        for timestep in pipeline.scheduler.timesteps[index + 1 : index + 2]:
            low, high = generation.guidance_interval or (0.0, 1000.0)
            pipeline._guidance_scale = generation.guidance_scale if low <= timestep <= high else 1.0
        return {}

    return end_step


def _count_steps(scheduler: Any, done: Callable[[], None]) -> None:
    """Count steps by wrapping the scheduler, because the modular pipeline has no callback."""
    step = scheduler.step

    def counting_step(*arguments: Any, **options: Any) -> Any:
        result = step(*arguments, **options)
        done()
        return result

    scheduler.step = counting_step


def _counter(progress: StepProgress, total: int) -> Callable[[], None]:
    """Return a function that reports one more step to `progress` each time it is called."""
    count = 0

    def done() -> None:
        nonlocal count
        count += 1
        progress(count, total)

    progress(0, total)
    return done


@contextmanager
def _guardrail_failures() -> Iterator[None]:
    """Turn a guardrail's refusal, or its failure to judge, into a Failure.

    Diffusers raises a refusal as a ValueError that quotes the prompt. It is not chained, so that no log has the prompt.
    """
    import torch

    try:
        yield
    except GuardrailFailed as error:
        if isinstance(error.__cause__, torch.AcceleratorError):  # the CUDA context is unusable for all later jobs
            raise error.__cause__ from None
        raise unjudged(str(error)) from error
    except ValueError as error:
        for message, what in _REFUSALS.items():
            if message in str(error):
                raise blocked(what) from None
        raise


def _pictures(frames: Frames) -> list[Image.Image]:
    return [Image.fromarray(frame) for frame in frames]


def _array(tensor: Any) -> np.ndarray:
    array: np.ndarray = tensor.detach().float().cpu().numpy()
    return array
