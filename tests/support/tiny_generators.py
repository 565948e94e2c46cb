"""Tiny checkpoints of generators in shapes that `cosmos_batch.demo.generator` does not have, with random weights."""

import json
from pathlib import Path
from typing import Any

from cosmos_batch.demo.generator import TRANSFORMER, VAE, write_generator
from cosmos_batch.demo.tokenizer import train_tokenizer, write_json

DISTILLED_NAME = "tiny-Cosmos3-Super-Text2Image-4Step"
NOISE_LEVELS = [1.0, 0.9375, 0.8333333333333334, 0.625]

# The configuration of NVIDIA's distilled checkpoints, which have neither sound nor actions. Sources: the registry of
# Cosmos Framework (`cosmos_framework/inference/args.py` at 5eee9ed) for the steps;
# the rest is Diffusers' default.
DISTILLED_SCHEDULER = {
    "_class_name": "FlowMatchEulerDiscreteScheduler",
    "num_train_timesteps": 1000,
    "shift": 1.0,
    "stochastic_sampling": True,
    "use_dynamic_shifting": False,
    "fixed_step_requires_explicit_sigmas": True,
    "fixed_step_sampler_config": {"sample_type": "sde", "t_list": NOISE_LEVELS},
}


def build_distilled_generator(parent: Path, name: str = DISTILLED_NAME) -> Path:
    """Write a distilled generator below `parent`, and return its folder."""
    folder = parent / name
    without = {"action_gen": False, "sound_gen": False, "sound_dim": None}
    write_generator(folder, {"vocab_size": train_tokenizer().get_vocab_size(), **TRANSFORMER, **without}, VAE, None)
    write_json(folder / "scheduler" / "scheduler_config.json", DISTILLED_SCHEDULER)
    index: dict[str, Any] = json.loads((folder / "model_index.json").read_text("utf-8"))
    index["scheduler"] = ["diffusers", DISTILLED_SCHEDULER["_class_name"]]
    write_json(folder / "model_index.json", index)
    return folder
