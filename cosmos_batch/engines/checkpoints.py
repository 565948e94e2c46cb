"""Reading a checkpoint's settings, and failures for folders that are no checkpoint or a broken one."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cosmos_batch.contract.error import Failure
from cosmos_batch.planning.generation.abilities import DISTILLED_REASON, DISTILLED_REMEDY, is_distilled_scheduler

GENERATORS = "the Cosmos 3 family"
GENERATOR_PARTS = ("model_index.json", "transformer/config.json", "text_tokenizer/tokenizer.json")
"""The files that are read of a generator's checkpoint before its server is started."""


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
    own: int = text_config(folder)["max_position_embeddings"]
    return own if limit is None else min(own, limit)


def refuse_distilled(folder: Path) -> None:
    """Raise Failure (ModelUnavailable) where a generator's checkpoint is distilled, whatever its name is."""
    try:
        scheduler = json.loads((folder / "scheduler" / "scheduler_config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return  # the checkpoint is broken, which the engine reports when it loads it
    if isinstance(scheduler, dict) and is_distilled_scheduler(scheduler):
        raise Failure("ModelUnavailable", f"{folder.name} {DISTILLED_REASON}.", DISTILLED_REMEDY)


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
