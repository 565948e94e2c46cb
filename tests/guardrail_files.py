"""Small files in the place of the guardrails' models, as their libraries find them."""

from pathlib import Path

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
