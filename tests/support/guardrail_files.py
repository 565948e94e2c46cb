"""Small files in the place of the guardrails' models, as their libraries find them."""

from pathlib import Path

from cosmos_batch.catalogue.generator_abilities import COSMOS_GUARDRAIL
from cosmos_batch.demo.tokenizer import train_tokenizer, write_tokenizer

FORBIDDEN = "forbidden"


def write_block_list(folder: Path) -> Path:
    """Write a block list of one word, in the layout of NVIDIA's repository."""
    (folder / "blocklist" / "custom").mkdir(parents=True)
    (folder / "blocklist" / "custom" / "words").write_text(f"{FORBIDDEN}\n")
    return folder


def write_prompt_checker(folder: Path) -> Path:
    """Write the part of Qwen3Guard's checkpoint by which it is recognized."""
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "qwen3"}')
    return folder


SAFE = "Safety: Safe\nCategories: None"
UNSAFE = "Safety: Unsafe\nCategories: Violent"
NONSENSE = "The robot arm is red."
UNREADABLE = "xyzzy"
"""A word that the tiny Qwen3's tokenizer knows and its embedding does not: the model raises."""


def write_cosmos_guardrail(folder: Path, says: str = SAFE) -> dict[str, Path]:
    """Write all files that the real package loads, in folders as the model store has them.

    They are a block list, NLTK's data without content, a face detector that sees no face, and a tiny Qwen3 that answers
    `says` to every prompt.
    """
    guardrail, checker = (folder / name / ("5" * 40) for name in ("guardrail", "checker"))
    write_block_list(guardrail)
    for kind, word in (("whitelist", ""), ("exact_match", "verboten")):
        (guardrail / "blocklist" / kind).mkdir()
        (guardrail / "blocklist" / kind / "words").write_text(f"{word}\n")
    _write_language_data(guardrail / "blocklist" / "nltk_data")
    _write_face_detector(guardrail / "face_blur_filter")
    write_speaker(checker, says)
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


def write_speaker(folder: Path, says: str) -> None:
    """Write a Qwen3 that really generates: whatever it is asked, it says `says` and ends.

    Its layer adds nothing, so that the next token follows from the last one alone. The answer is one token: it follows
    the last token of the prompt, which is that of its chat template, and the end follows it. UNREADABLE makes it raise.
    """
    import torch
    from tokenizers import AddedToken
    from transformers import Qwen3Config, Qwen3ForCausalLM

    folder.mkdir(parents=True)
    tokenizer = train_tokenizer()
    tokenizer.add_tokens([AddedToken(says), AddedToken(UNREADABLE)])
    write_tokenizer(folder, tokenizer)
    end = tokenizer.encode("<|im_end|>\n", add_special_tokens=False).ids
    [answer] = tokenizer.encode(says, add_special_tokens=False).ids
    config = Qwen3Config(
        vocab_size=tokenizer.get_vocab_size() - 1,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=1,
        head_dim=16,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=end[0],
        pad_token_id=end[0],
    )
    model = Qwen3ForCausalLM(config)
    layer = model.model.layers[0]
    with torch.no_grad():
        for weight in (layer.self_attn.o_proj.weight, layer.mlp.down_proj.weight, model.lm_head.weight):
            weight.zero_()
        model.model.embed_tokens.weight.zero_()
        for direction, (token, following) in enumerate(((end[-1], answer), (answer, end[0]))):
            model.model.embed_tokens.weight[token, direction] = 1
            model.lm_head.weight[following, direction] = 1
    model.save_pretrained(folder)
