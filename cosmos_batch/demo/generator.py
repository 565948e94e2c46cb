"""A tiny random generator of Cosmos 3 in the layout that Diffusers reads, with every switch of the real Nano.

On a CPU it makes images, videos, sound and actions in seconds, by the real steps. Its output is noise. Two runs write
the same bytes.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

from cosmos_batch.catalogue.pipelines import RANDOM_WEIGHTS
from cosmos_batch.demo.checkpoint import publish
from cosmos_batch.demo.tokenizer import train_tokenizer, write_json, write_tokenizer
from cosmos_batch.engines.library_imports import import_diffusers

GENERATOR_NAME = f"{RANDOM_WEIGHTS}-tiny-Cosmos3-Generator"

_SEED = 0
_LATENT_CHANNELS = 48
_SOUND_CHANNELS = 64
TRANSFORMER = {
    "head_dim": 16,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "latent_channel": _LATENT_CHANNELS,
    "latent_patch_size": 2,
    "patch_latent_dim": 4 * _LATENT_CHANNELS,
    "rope_scaling": {"mrope_section": [4, 2, 2], "rope_type": "default", "mrope_interleaved": True},
    "action_gen": True,
    "action_dim": 64,
    "num_embodiment_domains": 32,
    "sound_gen": True,
    "sound_dim": _SOUND_CHANNELS,
    "sound_latent_fps": 25.0,
}
VAE = {
    "base_dim": 8,
    "decoder_base_dim": 8,
    "z_dim": _LATENT_CHANNELS,
    "dim_mult": [1, 2, 4, 4],
    "num_res_blocks": 1,
    "temperal_downsample": [False, True, True],
    "is_residual": True,
    "in_channels": 12,
    "out_channels": 12,
    "patch_size": 2,
    "scale_factor_spatial": 16,
    "scale_factor_temporal": 4,
    "latents_mean": [0.0] * _LATENT_CHANNELS,
    "latents_std": [1.0] * _LATENT_CHANNELS,
}
SOUND = {
    "sampling_rate": 48_000,
    "hop_size": 1920,
    "vocoder_input_dim": _SOUND_CHANNELS,
    "dec_dim": 8,
    "dec_c_mults": (1, 2, 4, 8, 16),
    "dec_strides": (2, 4, 5, 6, 8),
    "dec_out_channels": 2,
    "enc_dim": 8,
    "enc_num_blocks": 1,
    "enc_latent_dim": 2 * _SOUND_CHANNELS,
}
# NVIDIA's converter writes these, Karras' sigmas included; an engine replaces them for each job.
_SCHEDULER = {
    "use_karras_sigmas": True,
    "use_flow_sigmas": True,
    "prediction_type": "flow_prediction",
    "sigma_max": 200.0,
    "sigma_min": 0.147,
}
_PARTS = {
    "scheduler": ["diffusers", "UniPCMultistepScheduler"],
    "sound_tokenizer": ["diffusers", "Cosmos3AVAEAudioTokenizer"],
    "text_tokenizer": ["transformers", "Qwen2Tokenizer"],
    "transformer": ["diffusers", "Cosmos3OmniTransformer"],
    "vae": ["diffusers", "AutoencoderKLWan"],
}


def build_random_generator(parent: Path) -> Path:
    """Build a generator as the folder `GENERATOR_NAME` below `parent`, as `build_random_checkpoint` does."""
    return publish(parent / GENERATOR_NAME, _write)


def _write(folder: Path) -> None:
    write_generator(folder, {"vocab_size": train_tokenizer().get_vocab_size(), **TRANSFORMER}, VAE, SOUND)


def write_generator(
    folder: Path, transformer: dict[str, Any], vae: dict[str, Any], sound: dict[str, Any] | None
) -> None:
    """Write a checkpoint of a generator with random weights of these shapes, in torch's default type.

    Without `sound` it generates none.
    """
    torch, diffusers = import_module("torch"), import_diffusers()
    with torch.random.fork_rng():
        torch.manual_seed(_SEED)
        for name, kind, shape in (
            ("transformer", diffusers.Cosmos3OmniTransformer, transformer),
            ("vae", diffusers.AutoencoderKLWan, vae),
            ("sound_tokenizer", diffusers.Cosmos3AVAEAudioTokenizer, sound),
        ):
            if shape is not None:
                kind(**shape).save_pretrained(folder / name)
    diffusers.UniPCMultistepScheduler(**_SCHEDULER).save_pretrained(folder / "scheduler")
    (folder / "text_tokenizer").mkdir()
    write_tokenizer(folder / "text_tokenizer", train_tokenizer())
    parts = _PARTS if sound is not None else {**_PARTS, "sound_tokenizer": [None, None]}
    index = {"_class_name": "Cosmos3OmniPipeline", "_diffusers_version": diffusers.__version__, **parts}
    write_json(folder / "model_index.json", index)
