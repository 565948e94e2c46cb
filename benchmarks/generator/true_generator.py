"""A checkpoint with the shapes of Cosmos3-Nano and random weights, which takes as long to run as the real one.

Shapes are the defaults of Diffusers' own classes, which are Nano's, and the VAE's those of Wan 2.2, which Nano has.
"""

from pathlib import Path
from typing import Any

from cosmos_batch.demo.generator import SOUND, TRANSFORMER, VAE, build_random_generator, write_generator

_OF_NANO = ("action_gen", "action_dim", "num_embodiment_domains", "sound_gen", "sound_dim", "sound_latent_fps")
NANO: dict[str, Any] = {
    **{name: TRANSFORMER[name] for name in _OF_NANO},
    "head_dim": 128,
    "hidden_size": 4096,
    "intermediate_size": 12_288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 151_936,
    "rope_scaling": {"mrope_section": [24, 20, 20], "rope_type": "default", "mrope_interleaved": True},
}
NANO_VAE: dict[str, Any] = {**VAE, "base_dim": 160, "decoder_base_dim": 256, "num_res_blocks": 2}
NANO_SOUND: dict[str, Any] = {"sampling_rate": SOUND["sampling_rate"], "vocoder_input_dim": SOUND["vocoder_input_dim"]}


def build(shape: str, parent: Path) -> Path:
    """Return the folder of the checkpoint, `tiny` or `nano`; it is written below `parent` unless it exists."""
    parent.mkdir(parents=True, exist_ok=True)
    if shape == "tiny":
        return build_random_generator(parent)
    folder = parent / "random-weights-nano-Cosmos3-Generator"
    if not (folder / "model_index.json").exists():
        _build(folder)
    return folder


def _build(folder: Path) -> None:
    import torch

    folder.mkdir(exist_ok=True)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
            write_generator(folder, NANO, NANO_VAE, NANO_SOUND)
    finally:
        torch.set_default_dtype(before)
    torch.cuda.empty_cache()
