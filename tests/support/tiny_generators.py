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
    _change(folder / "model_index.json", {"scheduler": ["diffusers", DISTILLED_SCHEDULER["_class_name"]]})
    return folder


EDGE_NAME = "tiny-Cosmos3-Edge"
# Fields of the transformer's configuration that vLLM-Omni requires, and Diffusers does not read.
EDGE_BACKBONE = {"backbone_type": "cosmos3_edge_nemotron_dense", "temporal_compression_factor": 4}
EDGE_INDEX = {"default_use_system_prompt": False, "use_native_flow_schedule": True}

# Cosmos3-Edge's switches, in a small size. Source: `_build_edge_transformer` of Diffusers' conversion script, and what
# vLLM-Omni 0.30.0 requires (`_validate_supported_config` in `transformer_cosmos3_edge.py`).
EDGE = {
    "attention_bias": False,
    "head_dim": 16,
    "hidden_act": "relu2",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "latent_channel": 48,
    "latent_patch_size": 2,
    "patch_latent_dim": 192,
    "qk_norm_for_text": False,
    "rms_norm_eps": 1e-5,
    "rope_scaling": {"mrope_section": [4, 2, 2]},
    "rope_theta": 100_000_000.0,
    "action_gen": True,
    "action_dim": 64,
    "num_embodiment_domains": 32,
}


def build_edge_generator(parent: Path) -> Path:
    """Write a generator with the switches of Cosmos3-Edge below `parent`, and return its folder."""
    folder = parent / EDGE_NAME
    write_generator(folder, {"vocab_size": train_tokenizer().get_vocab_size(), **EDGE}, VAE, None)
    _change(folder / "model_index.json", EDGE_INDEX)
    _change(folder / "transformer" / "config.json", EDGE_BACKBONE)
    return folder


def _change(path: Path, fields: dict[str, Any]) -> None:
    write_json(path, {**json.loads(path.read_text("utf-8")), **fields})
