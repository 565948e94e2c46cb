"""A stand-in for PhyAI's tokenizer: a text has as many tokens as words, and a system prompt has none.

While there is a file `hold` beside the tokenizer's files, loading it takes until the file is removed; `held` is written
meanwhile.
"""

import time
from pathlib import Path
from typing import Any


def resolve_domain_id(domain: str) -> int:
    return {"bridge_orig_lerobot": 7}[domain]


class Cosmos3Processor:
    eos_token_id = vision_start_token_id = 1

    def __init__(self, tokenizer: str, *, append_metadata: bool) -> None:
        assert tokenizer.endswith("text_tokenizer") and not append_metadata
        while (hold := Path(tokenizer, "hold")).exists():
            hold.with_name("held").touch()
            time.sleep(0.01)
        self.tokenizer = Tokenizer()


class Tokenizer:
    def apply_chat_template(
        self, chat: list[dict[str, str]], *, add_generation_prompt: bool, return_dict: bool
    ) -> dict[str, Any]:
        assert add_generation_prompt and return_dict
        *system, user = chat
        if "refused" in user["content"]:
            raise ValueError("this prompt is no prompt")
        assert [one["role"] for one in system] in ([], ["system"])
        return {"input_ids": [1] * len(user["content"].split())}
