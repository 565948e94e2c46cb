"""A tiny checkpoint in the layout of Cosmos3-Edge's reasoner, with random weights.

transformers writes it, with the names of NVIDIA's tensors and files. Its answers mean nothing.
"""

import math
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from cosmos_batch.demo.checkpoint import generation_config
from cosmos_batch.demo.tokenizer import CONTEXT, train_tokenizer, write_json, write_tokenizer
from cosmos_batch.engines.library_imports import import_torchvision

_MARKERS = {
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}
_PROJECTOR = {
    "model_type": "cosmos3_edge_projector",
    "input_hidden_size": 64,
    "merger_intermediate_size": 256,
    "out_hidden_size": 64,
    "spatial_merge_size": 2,
    "use_postshuffle_norm": False,
}
_VISION_NAMES = {"fc1": "up_proj", "fc2": "down_proj", "q_proj": "to_q", "k_proj": "to_k", "v_proj": "to_v"}


def build_edge_reasoner(parent: Path) -> Path:
    """Write the checkpoint below `parent`, and return its folder."""
    import_torchvision()
    import torch
    from transformers import AutoTokenizer, Cosmos3EdgeConfig, Cosmos3EdgeForConditionalGeneration
    from transformers.models.cosmos3_edge.image_processing_cosmos3_edge import Cosmos3EdgeImageProcessor
    from transformers.models.cosmos3_edge.processing_cosmos3_edge import Cosmos3EdgeProcessor
    from transformers.models.cosmos3_edge.video_processing_cosmos3_edge import Cosmos3EdgeVideoProcessor

    folder, words = parent / "tiny-Cosmos3-Edge", train_tokenizer()
    config = Cosmos3EdgeConfig(
        text_config=_text_config(words),
        vision_config={"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2},
        projector_hidden_size=256,
        projector_config=_PROJECTOR,  # read by vLLM
        **{name: words.token_to_id(marker) for name, marker in _MARKERS.items()},
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        Cosmos3EdgeForConditionalGeneration(config).to(torch.bfloat16).save_pretrained(folder)
    _split_weights(folder)
    write_tokenizer(folder, words)
    write_json(folder / "generation_config.json", generation_config(words))
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    for kind in (Cosmos3EdgeImageProcessor, Cosmos3EdgeVideoProcessor):
        kind().save_pretrained(folder)
    Cosmos3EdgeProcessor(
        Cosmos3EdgeImageProcessor(), tokenizer, Cosmos3EdgeVideoProcessor(), chat_template=tokenizer.chat_template
    ).save_pretrained(folder)
    return folder


def _split_weights(folder: Path) -> None:
    """Move the weights into the folders that a generator's parts have, as in NVIDIA's repository."""
    whole = folder / "model.safetensors"
    weights, index = load_file(whole), {}
    for part, prefix in (("vision_encoder/model", "model."), ("transformer/diffusion_pytorch_model", "")):
        own = {_hub_name(name): weights.pop(name) for name in list(weights) if name.startswith(prefix)}
        path = folder / f"{part}.safetensors"
        path.parent.mkdir()
        save_file(own, path, {"format": "pt"})
        index |= dict.fromkeys(own, str(path.relative_to(folder)))
    whole.unlink()
    write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": index})


def _hub_name(name: str) -> str:
    """Return the name of a tensor in NVIDIA's repository. transformers writes the vision encoder's like the text's."""
    if name.startswith("model.visual."):
        for theirs, written in _VISION_NAMES.items():
            name = name.replace(f".{written}.", f".{theirs}.")
    return name


def _text_config(words: Any) -> dict[str, Any]:
    return {
        "vocab_size": math.ceil(words.get_vocab_size() / 64) * 64,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,  # the least that the attention of vLLM's CPU build takes
        "max_position_embeddings": CONTEXT,
        "rope_parameters": {"rope_type": "default", "rope_theta": 100_000_000.0, "mrope_section": [6, 5, 5]},
        "bos_token_id": words.token_to_id("<|endoftext|>"),
        "eos_token_id": words.token_to_id("<|im_end|>"),
        "pad_token_id": 0,
    }
