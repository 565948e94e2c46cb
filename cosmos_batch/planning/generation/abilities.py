"""Refuse a generation that the model, the engine or the GPUs of its pipeline cannot do, and say which ones can."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cosmos_batch.catalogue.distillation import DISTILLED_MODES, fixed_steps_of, lacks_number_of_steps
from cosmos_batch.catalogue.engines import ENGINES, GENERATOR_ABILITIES, names_for
from cosmos_batch.catalogue.generation import FRAME_LIMIT, MODES, SIZES, Mode, Resolution, Size, tier_of
from cosmos_batch.catalogue.generator_abilities import GeneratorAbilities
from cosmos_batch.catalogue.hardware import GPUS
from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.parameters import Controls, GenerationParameters
from cosmos_batch.contract.generation.serving import Serving
from cosmos_batch.planning.generation.memory import Workload, gib_per_gpu, usable_gib
from cosmos_batch.planning.generation.parallelism import types_that_carry


class Obstacle(NamedTuple):
    """The reason why an engine cannot do a generation, and what the caller can change."""

    reason: str
    """The end of a sentence that begins with the engine's title."""

    remedy: str
    """The end of a sentence."""


def refuse_unable_engine(engine: str, generation: Generation) -> None:
    """Raise Failure (InvalidInput) if an engine cannot do this. Custom engines are not checked, for nothing is known
    of them.
    """
    abilities = GENERATOR_ABILITIES.get(engine)
    obstacle = first_obstacle(abilities, generation) if abilities else None
    if abilities is None or obstacle is None:
        return
    titles = [ENGINES[name].title for name in engines_for(generation)]
    alternative = f"Use a pipeline on {' or '.join(titles)}" if titles else "No other engine can"
    raise Failure(
        "InvalidInput",
        f"{ENGINES[engine].title}, the engine of this pipeline, {obstacle.reason}.",
        f"{alternative}; or {obstacle.remedy}.",
    )


def refuse_several_uploads(controls: Controls) -> None:
    """Raise Failure if a transfer needs several files of an external server that accepts one upload per request."""
    if len(controls) > 1:
        raise Failure(
            "InvalidInput",
            f"controls: there are {len(controls)}, and the server of this pipeline accepts one upload.",
            "Use one control, or a pipeline whose workers run the model themselves.",
        )


def engines_for(generation: Generation) -> list[str]:
    """Return the engines of workers that can do this, in the order of the registry."""
    return [name for name in names_for("generator") if first_obstacle(GENERATOR_ABILITIES[name], generation) is None]


def first_obstacle(engine: GeneratorAbilities, generation: Generation) -> Obstacle | None:
    """Return the first reason why an engine cannot do this; None if it can."""
    for obstacles in (
        _mode_obstacles,
        _rate_obstacles,
        _length_obstacles,
        _size_obstacles,
        _transfer_length_obstacles,
        _transfer_obstacles,
        _action_obstacles,
    ):
        if obstacle := next(obstacles(engine, generation), None):
            return obstacle
    return None


def _mode_obstacles(engine: GeneratorAbilities, generation: Generation) -> Iterator[Obstacle]:
    mode = generation.mode
    if mode not in engine.modes:
        yield Obstacle(f"does not do {mode} ({MODES[mode].title})", f"use one of its modes: {', '.join(engine.modes)}")
    if generation.sound and mode not in engine.sound:
        yield Obstacle(f"generates no sound with {mode}", "leave sound out")
    if generation.guardrails and not engine.guardrails:
        yield Obstacle("has no guardrails", "set guardrails to false")
    if generation.guardrails and mode in engine.unguarded:
        yield Obstacle(f"has no guardrails for {mode}", "set guardrails to false")


def _rate_obstacles(engine: GeneratorAbilities, generation: Generation) -> Iterator[Obstacle]:
    guidance, fps = generation.guidance_scale, generation.fps
    for is_outside, bound, limit in (
        (guidance < engine.guidance_least, "at least", engine.guidance_least),
        (guidance > engine.guidance_limit, "at most", engine.guidance_limit),
    ):
        if is_outside:
            yield Obstacle(
                f"requires a guidanceScale of {bound} {limit:g}, not {guidance:g}", f"set guidanceScale to {limit:g}"
            )
    if engine.steps_limit is not None and generation.steps > engine.steps_limit:
        yield Obstacle(
            f"takes at most {engine.steps_limit} steps, not {generation.steps}", f"set steps to {engine.steps_limit}"
        )
    if fps is not None and fps < engine.fps_least:
        yield Obstacle(
            f"requires an fps of at least {engine.fps_least:g}, not {fps:g}", f"set fps to {engine.fps_least:g} or more"
        )
    if fps is not None and fps > engine.fps_limit:
        yield Obstacle(
            f"requires an fps of at most {engine.fps_limit:g}, not {fps:g}", f"set fps to {engine.fps_limit:g} or less"
        )
    if engine.whole_fps and fps is not None and fps % 1:
        yield Obstacle(f"requires a whole number as fps, not {fps:g}", f"set fps to {round(fps) or 1}")


def _length_obstacles(engine: GeneratorAbilities, generation: Generation) -> Iterator[Obstacle]:
    frames, fewest = generation.num_frames, engine.fewest_frames
    if generation.is_video and generation.action is None and frames is not None and frames < fewest:
        yield Obstacle(f"makes videos of at least {fewest} frames, not {frames}", f"set numFrames to {fewest} or more")


def _transfer_length_obstacles(engine: GeneratorAbilities, generation: Generation) -> Iterator[Obstacle]:
    frames, size = generation.num_frames, generation.size
    if engine.long_transfers or generation.transfer is None or frames is None or size is None:
        return
    tier = tier_of(size)
    if tier is not None and frames > (limit := FRAME_LIMIT[tier]):
        yield Obstacle(
            f"makes no more than {limit} frames of {size}, not {frames}", f"set numFrames to {limit} or less"
        )


def _size_obstacles(engine: GeneratorAbilities, generation: Generation) -> Iterator[Obstacle]:
    size = generation.size
    if generation.mode in engine.table_sizes and size is not None and not is_in_table(size):
        yield Obstacle(
            f"generates only the sizes of NVIDIA's table, not {size}", "set resolution and aspectRatio instead"
        )
    elif generation.mode in engine.table_sizes and size is not None and not is_in_table(size, engine.tiers):
        yield Obstacle(f"has no size of {size}", f"set resolution to {' or '.join(engine.tiers)}")
    if engine.flow_shift not in (None, generation.flow_shift):
        yield Obstacle(
            f"is started with a flowShift of {engine.flow_shift:g}, not {generation.flow_shift:g}",
            "leave flowShift out",
        )


def is_in_table(size: Size, tiers: Iterable[Resolution] = SIZES) -> bool:
    """Return whether a size is one of NVIDIA's table, in any of these tiers."""
    return any(size in SIZES[tier].values() for tier in tiers)


def _transfer_obstacles(engine: GeneratorAbilities, generation: Generation) -> Iterator[Obstacle]:
    controls = generation.transfer.controls if generation.transfer else {}
    if not engine.weights and len({control.weight for control in controls.values()}) > 1:
        yield Obstacle("gives all controls the same weight", "leave their weights out")


def _action_obstacles(engine: GeneratorAbilities, generation: Generation) -> Iterator[Obstacle]:
    domain = generation.action.domain_name if generation.action else None
    if domain in engine.unknown_domains:
        yield Obstacle(f"does not have the domain {domain}", "use another domain")
    if domain in engine.forward_only and generation.mode != "forward_dynamics":
        yield Obstacle(f"predicts no actions of {domain}", "use mode forward_dynamics")


def refuse_large_generation(generation: Generation, serving: Serving, pipeline: Pipeline) -> None:
    """Raise Failure (InvalidInput) if a generation needs more memory than a GPU of the pipeline's workers has."""
    workload = Workload.of(generation, serving.guardrails)
    for gpu, plan in serving.plans.items():
        need, available = gib_per_gpu(plan, pipeline, serving.engine, workload), usable_gib(GPUS[gpu].memory_gib)
        if need > available:
            raise Failure(
                "InvalidInput",
                f"The job needs {need:.0f} GiB of a GPU, and the workers of {pipeline.id} ({plan}) have "
                f"{available:.0f}.",
                "Use fewer frames, a smaller resolution, fewer controls or a shorter prompt; or deploy the pipeline on "
                f"other types: {types_that_carry(pipeline, serving.engine, workload)}.",
            )


def distilled_obstacle(model: str, engine: str) -> Obstacle | None:
    """Return why an engine cannot run a distilled model, or None if it can or the model is not distilled.

    The reason continues a sentence that begins with the model's name. Custom engines are not checked, because nothing
    is known of them.
    """
    abilities = GENERATOR_ABILITIES.get(engine)
    if abilities is None:
        return None
    if lacks_number_of_steps(model):
        return Obstacle(
            "is distilled, and its name does not say to how many steps, which a job is planned with",
            "add them to the name of its repository or folder, as in Cosmos3-Super-Text2Image-4Step",
        )
    if fixed_steps_of(model) is not None and not abilities.distilled:
        able = [name for name in names_for("generator") if GENERATOR_ABILITIES[name].distilled]
        return Obstacle(
            f"is distilled to a few fixed steps, which {ENGINES[engine].title} does not run",
            f"set engine to {' or '.join(able)}, or take the model that it was distilled from",
        )
    return None


def refuse_undistilled_engine(model: str, serving: Serving) -> None:
    """Raise Failure (ModelUnavailable) if the engine of a pipeline cannot run its distilled model."""
    if obstacle := distilled_obstacle(model, serving.engine):
        raise Failure("ModelUnavailable", f"{model} {obstacle.reason}.", f"In config.json, {obstacle.remedy}.")


def refuse_undistilled_request(parameters: GenerationParameters, mode: Mode, fixed_steps: int) -> None:
    """Raise Failure (InvalidInput) for the first field that a distilled model cannot follow.

    `fixed_steps` is the number of its steps. The steps and noise levels are fixed, and it has no guidance, so that a
    negative prompt has no effect.
    """
    for problem, remedy in _distilled_problems(parameters, mode, fixed_steps):
        raise Failure("InvalidInput", problem, remedy)


def _distilled_problems(parameters: GenerationParameters, mode: Mode, fixed_steps: int) -> Iterator[tuple[str, str]]:
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
