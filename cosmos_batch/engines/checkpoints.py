"""Reading a checkpoint's settings, and failures for folders that are no checkpoint or a broken one."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.generation import Generation

GENERATORS = "the Cosmos 3 family"
GENERATOR_PARTS = ("model_index.json", "transformer/config.json", "text_tokenizer/tokenizer.json")
"""The files that are read of a generator's checkpoint before its server is started."""

DISTILLED_SCHEDULER = "FlowMatchEulerDiscreteScheduler"
FIXED_STEPS = "fixed_step_sampler_config"
"""The scheduler of a distilled checkpoint, and the field of its configuration that lists its steps."""


def refuse_incomplete(folder: Path, *parts: str, models: str | None = None) -> None:
    """Raise Failure (ModelUnavailable) where a file is missing; `models` says whose checkpoints the engine can load."""
    for part in parts:
        if not (folder / part).is_file():
            raise Failure(
                "ModelUnavailable", f"{folder.name} is no checkpoint: it has no {part}.", _complete_remedy(models)
            )


def config_of(folder: Path) -> dict[str, Any]:
    """Return a checkpoint's `config.json`."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return config


def text_config(folder: Path) -> dict[str, Any]:
    """Return the settings of a checkpoint's language model, which may stand in a part of `config.json`."""
    config = config_of(folder)
    text: dict[str, Any] = config.get("text_config", config)
    return text


def context_length(folder: Path, limit: int | None) -> int:
    """Return how many tokens prompt and answer may have together: the checkpoint's own context, or `limit` if less."""
    model_limit: int = text_config(folder)["max_position_embeddings"]
    return model_limit if limit is None else min(model_limit, limit)


def fixed_noise_levels(folder: Path) -> tuple[float, ...] | None:
    """Return the noise levels at which the steps of a distilled checkpoint begin, whatever its name is.

    None if it is not distilled. vLLM-Omni recognizes a distilled checkpoint by the same scheduler
    (`pipeline_cosmos3.py`, 0.30.0); the others have UniPC. Raises Failure (ModelUnavailable) if the levels are missing.
    """
    try:
        scheduler = json.loads((folder / "scheduler" / "scheduler_config.json").read_text("utf-8"))
        is_distilled = scheduler.get("_class_name") == DISTILLED_SCHEDULER or FIXED_STEPS in scheduler
    except (OSError, ValueError, AttributeError):
        return None  # the checkpoint is broken, which the engine reports when it loads it
    if not is_distilled:
        return None
    try:
        sampler = scheduler[FIXED_STEPS]
        levels = tuple(float(level) for level in sampler["t_list"])
        is_usable = sampler["sample_type"] == "sde" and bool(levels)
    except (KeyError, TypeError, ValueError):
        is_usable = False
    if not is_usable:
        raise Failure(
            "ModelUnavailable",
            f"{folder.name} is distilled, and its scheduler does not list its steps (`t_list` and a `sample_type` of "
            f"`sde` in `{FIXED_STEPS}`).",
            "Use a checkpoint that NVIDIA published, such as nvidia/Cosmos3-Super-Text2Image-4Step.",
        )
    return levels


def refuse_distilled(folder: Path, engine: str) -> None:
    """Raise Failure (ModelUnavailable) for a distilled checkpoint, on behalf of an engine that runs none."""
    if fixed_noise_levels(folder) is not None:
        raise Failure(
            "ModelUnavailable",
            f"{folder.name} is distilled to a few fixed steps, which {engine} does not run.",
            "Use the checkpoint that it was distilled from, or the engine vllm-omni or diffusers.",
        )


def refuse_other_steps(generation: Generation, fixed_steps: int | None, model: str) -> None:
    """Raise Failure (ModelUnavailable) if a job was planned for another kind of checkpoint than the one that is loaded.

    `fixed_steps` is the number of steps that the checkpoint is distilled to; None if it is not. A plan follows from the
    name of the model, a checkpoint is recognized by its files. The wrong steps would generate noise without an error.
    """
    planned = generation.steps if generation.distilled else None
    if planned == fixed_steps:
        return
    kinds = [
        "not distilled" if steps is None else f"distilled to {steps} fixed steps" for steps in (fixed_steps, planned)
    ]
    raise Failure(
        "ModelUnavailable",
        f"{model} is {kinds[0]}, and the job was planned for a model that is {kinds[1]}.",
        "In config.json, give a model, or endpoint.model, a name that ends in its steps, such as -4Step, if and only "
        "if it is distilled to them: the plan follows from the name.",
    )


@contextmanager
def loading(folder: Path, models: str) -> Iterator[None]:
    """Turn whatever a library raises while it loads a checkpoint into Failure (ModelUnavailable).

    Broken checkpoints raise many types: OSError, KeyError, SafetensorError, and others.
    """
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        raise Failure(
            "ModelUnavailable",
            f"{folder.name} does not fit into the GPU's memory: {error}",
            "Choose an instance type with more GPU memory, or a smaller model.",
        ) from error
    except Exception as error:
        raise Failure(
            "ModelUnavailable",
            f"{folder.name} cannot be loaded: {type(error).__name__}: {error}",
            _complete_remedy(models),
        ) from error


def _complete_remedy(models: str | None) -> str:
    checkpoint = "a complete checkpoint" if models is None else f"a complete checkpoint of {models}"
    return f"Use {checkpoint}; set INVALIDATE_COSMOS_MODELS to fetch it anew."
