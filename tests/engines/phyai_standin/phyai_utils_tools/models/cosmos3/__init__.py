"""A stand-in: texts become as many tokens as they have words."""

from types import SimpleNamespace

import torch


def resolve_domain_id(domain: str) -> int:
    return {"bridge_orig_lerobot": 7}[domain]


class Cosmos3Processor:
    def __init__(self, tokenizer: str, *, append_metadata: bool) -> None:
        assert tokenizer.endswith("text_tokenizer") and not append_metadata

    def tokenize_pair(self, prompt: str, negative_prompt: str) -> tuple[SimpleNamespace, SimpleNamespace]:
        if "refused" in prompt:
            raise ValueError("this prompt is no prompt")
        return _tokens(prompt), _tokens(negative_prompt)


def _tokens(text: str) -> SimpleNamespace:
    ids = torch.ones(1, len(text.split()), dtype=torch.long)
    return SimpleNamespace(text_ids=ids, text_mask=torch.ones_like(ids))
