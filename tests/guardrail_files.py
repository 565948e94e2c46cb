"""Small files in the place of the guardrails' models, as their libraries find them."""

from pathlib import Path

from cosmos_batch.contract.generation.engines import COSMOS_GUARDRAIL
from cosmos_batch.demo.tokenizer import train_tokenizer, write_tokenizer

FORBIDDEN = "forbidden"


def write_block_list(folder: Path) -> Path:
    """Of NVIDIA's repository: one word."""
    (folder / "blocklist" / "custom").mkdir(parents=True)
    (folder / "blocklist" / "custom" / "words").write_text(f"{FORBIDDEN}\n")
    return folder


def write_prompt_checker(folder: Path) -> Path:
    """Of Qwen3Guard: what says that it is one."""
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "qwen3"}')
    return folder


def write_cosmos_guardrail(folder: Path) -> dict[str, Path]:
    """All that the real package loads, as the model store has it: a block list, NLTK's data, empty but whole, a face
    detector that sees none, and a tiny Qwen3 that says nothing of a prompt."""
    guardrail, checker = (folder / name / ("5" * 40) for name in ("guardrail", "checker"))
    write_block_list(guardrail)
    for kind, word in (("whitelist", ""), ("exact_match", "verboten")):
        (guardrail / "blocklist" / kind).mkdir()
        (guardrail / "blocklist" / kind / "words").write_text(f"{word}\n")
    _write_language_data(guardrail / "blocklist" / "nltk_data")
    _write_face_detector(guardrail / "face_blur_filter")
    _write_checker(checker)
    return dict(zip(COSMOS_GUARDRAIL, (guardrail, checker), strict=True))


def _write_language_data(folder: Path) -> None:
    sentences, words = folder / "tokenizers" / "punkt_tab" / "english", folder / "corpora" / "wordnet"
    for place in (sentences, words):
        place.mkdir(parents=True)
    for name in ("collocations.tab", "sent_starters.txt", "abbrev_types.txt", "ortho_context.tab"):
        (sentences / name).touch()
    for kind in ("adj", "adv", "noun", "verb"):
        for name in (f"index.{kind}", f"data.{kind}", f"{kind}.exc"):
            (words / name).touch()
    (words / "index.sense").touch()
    (words / "lexnames").write_text("00\tadj.all\t3\n")


def _write_face_detector(folder: Path) -> None:
    import torch
    from retinaface.data import cfg_re50
    from retinaface.models.retinaface import RetinaFace

    weights = RetinaFace(cfg={**cfg_re50, "pretrain": False}, phase="test").state_dict()
    for name, tensor in weights.items():
        if name.startswith("ClassHead"):  # of each place whether there is none, or one
            tensor.zero_()
            if name.endswith("bias"):
                tensor[::2] = 9
    folder.mkdir()
    torch.save(weights, folder / "Resnet50_Final.pth")


def _write_checker(folder: Path) -> None:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    folder.mkdir(parents=True)
    write_tokenizer(folder, train_tokenizer())
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "head_dim": 16}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    Qwen3ForCausalLM(Qwen3Config(vocab_size=4096, **shape, **heads)).save_pretrained(folder)
