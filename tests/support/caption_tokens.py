"""The token ids that captions become with a checkpoint's own tokenizer and chat template."""

from typing import Any

from cosmos_batch.engines.generator.captions import Captions

Ids = list[int]


def ids_of(tokenizer: Any, captions: Captions) -> tuple[Ids, Ids]:
    """Return the ids of the prompt and of the negative prompt, each with system prompt and chat markup."""
    system = [{"role": "system", "content": captions.system}] if captions.system else []
    behind = [tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<|vision_start|>")]

    def ids(text: str) -> Ids:
        chat = [*system, {"role": "user", "content": text}]
        return [*tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True).input_ids, *behind]

    return ids(captions.prompt), ids(captions.negative)
