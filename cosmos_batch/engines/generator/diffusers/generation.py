"""One generation with Diffusers' pipelines of Cosmos 3."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Literal

import numpy as np
from PIL import Image

from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.guardrails import blocked, unjudged
from cosmos_batch.engines.generator.captions import captions_for, with_sequence_length
from cosmos_batch.engines.generator.diffusers.checkpoint import LoadedCheckpoint
from cosmos_batch.engines.generator.guardrails import guardrails_missing
from cosmos_batch.engines.generator.inputs import Frames, PreparedGeneration, refuse_missing_parts
from cosmos_batch.engines.generator.outputs import GeneratedMedia
from cosmos_batch.engines.strict_guardrails import GuardrailFailed
from cosmos_batch.media import Sound

_VERDICTS: dict[str, Literal["prompt", "output"]] = {
    "Cosmos Guardrail detected unsafe text": "prompt",
    "Cosmos Guardrail detected unsafe content": "output",
}

Progress = Callable[[int, int], None]
"""Is told how many denoising steps of how many are done. What it raises ends the generation."""


def refuse_unsupported(checkpoint: LoadedCheckpoint, asked: Generation) -> None:
    """Raises Failure, before any work, where this checkpoint or this worker lacks what is asked for."""
    if asked.guardrails and checkpoint.guardrails is None:
        raise guardrails_missing("Diffusers")
    omni = checkpoint.omni
    refuse_missing_parts(asked, sound=omni.sound_tokenizer is not None, actions=omni.transformer.config.action_gen)


def settle_prompt_length(checkpoint: LoadedCheckpoint, prepared: PreparedGeneration) -> PreparedGeneration:
    """With `max_sequence_length` as the prompts need it. Raises Failure where it was set to less."""
    tokenizer = checkpoint.omni.text_tokenizer
    return with_sequence_length(prepared, lambda text: len(tokenizer(text, add_special_tokens=False).input_ids))


def generate(checkpoint: LoadedCheckpoint, prepared: PreparedGeneration, progress: Progress) -> GeneratedMedia:
    """Generate in the calling thread. The same seed gives the same result.

    Raises Failure: Blocked where a guardrail refuses prompt or output, EngineFailed where it cannot judge them.
    """
    asked = prepared.generation
    with _guardrails_speaking(), checkpoint.accelerated_job(asked):
        if asked.transfer:
            return _transfer(checkpoint, prepared, progress)
        scheduler = _scheduler(checkpoint, asked)
        checkpoint.omni.register_modules(scheduler=scheduler)
        result = checkpoint.omni(
            **_common(asked),
            **(_action(prepared) if asked.action else _plain(prepared)),
            fps=asked.fps,
            enable_safety_check=asked.guardrails,
            callback_on_step_end=_stepping(asked, _counter(progress, asked.steps)),
        )
    rate = checkpoint.omni.sound_tokenizer.config.sampling_rate if asked.sound else 0
    return GeneratedMedia(
        _pixels(result.video),
        Sound(_array(result.sound), rate) if asked.sound else None,
        _array(result.action[0]) if result.action is not None else None,
    )


def _common(asked: Generation) -> dict[str, Any]:
    import torch

    return {
        "prompt": asked.prompt,
        "negative_prompt": asked.negative_prompt,
        "num_inference_steps": asked.steps,
        "guidance_scale": asked.guidance_scale,
        "use_system_prompt": asked.action is None,
        # Noise of the CPU is the same on every device.
        "generator": torch.Generator("cpu").manual_seed(asked.seed),
        "output_type": "pt",
    }


def _plain(prepared: PreparedGeneration) -> dict[str, Any]:
    asked = prepared.generation
    found: dict[str, Any] = {
        "num_frames": asked.num_frames,
        "height": prepared.size.height,
        "width": prepared.size.width,
        "enable_sound": asked.sound,
        "add_resolution_template": asked.use_resolution_template,
        "add_duration_template": asked.use_duration_template,
    }
    if asked.conditioning:
        kept = {"condition_frame_indexes_vision": tuple(asked.conditioning.frames)}
        return {**found, **kept, "video": _pictures(prepared.frames)}
    return {**found, "image": _pictures(prepared.frames)[0]} if prepared.frames else found


def _action(prepared: PreparedGeneration) -> dict[str, Any]:
    import torch

    asked, settings = prepared.generation, prepared.generation.action
    assert settings is not None and asked.resolution is not None
    pictures = _pictures(prepared.frames)
    shown = {"video": pictures} if asked.mode == "inverse_dynamics" else {"image": pictures[0]}
    condition = import_module("diffusers").CosmosActionCondition(
        mode=asked.mode,
        chunk_size=settings.chunk_size,
        domain_name=settings.domain_name,
        resolution_tier=int(asked.resolution.removesuffix("p")),
        raw_actions=torch.tensor(prepared.actions) if prepared.actions else None,
        view_point=settings.view_point,
        **shown,
    )
    return {"action": condition}


def _transfer(checkpoint: LoadedCheckpoint, prepared: PreparedGeneration, progress: Progress) -> GeneratedMedia:
    asked, settings = prepared.generation, prepared.generation.transfer
    assert settings is not None and asked.num_frames is not None
    pipeline = checkpoint.modular
    captions = captions_for(asked, prepared.size)  # it reads them as they are
    scheduler = _scheduler(checkpoint, asked)
    _tell_steps(scheduler, _counter(progress, asked.total_steps))
    pipeline.update_components(scheduler=scheduler)
    if asked.guardrails:
        pipeline.enable_safety_checker()
    else:
        pipeline.disable_safety_checker()
    videos = pipeline(
        **{**_common(asked), "prompt": captions.prompt, "negative_prompt": captions.negative},
        control_videos={hint: _pictures(frames) for hint, frames in prepared.controls.items()},
        num_frames=asked.num_frames,
        height=prepared.size.height,
        width=prepared.size.width,
        fps=asked.fps,
        num_video_frames_per_chunk=min(settings.frames_per_chunk, asked.num_frames),
        control_guidance=settings.control_guidance,
        output="videos",
    )
    return GeneratedMedia(_pixels(videos))


def _scheduler(checkpoint: LoadedCheckpoint, asked: Generation) -> Any:
    """A new one for each job. The converter saves Karras' sigmas, which NVIDIA's own code does not use."""
    scheduler: Any = import_module("diffusers").UniPCMultistepScheduler
    return scheduler.from_config(checkpoint.omni.scheduler.config, flow_shift=asked.flow_shift, use_karras_sigmas=False)


def _stepping(asked: Generation, done: Callable[[], None]) -> Callable[..., dict[str, Any]]:
    """Called after each step. It sets the guidance of the next, which ends with the interval; the first is in it."""

    def stepped(pipeline: Any, index: int, _timestep: Any, _tensors: dict[str, Any]) -> dict[str, Any]:
        done()
        for timestep in pipeline.scheduler.timesteps[index + 1 : index + 2]:
            low, high = asked.guidance_interval or (0.0, 1000.0)
            pipeline._guidance_scale = asked.guidance_scale if low <= timestep <= high else 1.0
        return {}

    return stepped


def _tell_steps(scheduler: Any, done: Callable[[], None]) -> None:
    """The modular pipeline calls nobody back."""
    step = scheduler.step

    def telling(*arguments: Any, **options: Any) -> Any:
        result = step(*arguments, **options)
        done()
        return result

    scheduler.step = telling


def _counter(progress: Progress, total: int) -> Callable[[], None]:
    count = 0

    def done() -> None:
        nonlocal count
        count += 1
        progress(count, total)

    progress(0, total)
    return done


@contextmanager
def _guardrails_speaking() -> Iterator[None]:
    """Raise Failure for what guardrails refuse or cannot judge.

    What they refuse comes as a ValueError of Diffusers that quotes the prompt; nobody is to read that in a log.
    """
    import torch

    try:
        yield
    except GuardrailFailed as error:
        if isinstance(error.__cause__, torch.AcceleratorError):  # the GPU is lost for every later job too
            raise error.__cause__ from None
        raise unjudged(str(error)) from error
    except ValueError as error:
        for words, what in _VERDICTS.items():
            if words in str(error):
                raise blocked(what) from None
        raise


def _pictures(frames: Frames) -> list[Image.Image]:
    return [Image.fromarray(frame) for frame in frames]


def _pixels(video: Any) -> np.ndarray:
    """RGB, uint8, [T, H, W, 3], of [T, 3, H, W] between 0 and 1."""
    import torch

    pixels: np.ndarray = (video * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().cpu().numpy()
    return pixels


def _array(tensor: Any) -> np.ndarray:
    array: np.ndarray = tensor.detach().float().cpu().numpy()
    return array
