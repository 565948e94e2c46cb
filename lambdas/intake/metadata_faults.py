"""What is wrong in a file's metadata before anybody reads its values: settings that do not exist.

What is wrong in a value is left to `plan`, which knows the pipeline.
"""

from difflib import get_close_matches
from typing import Any

from cosmos_batch.contract.metadata import PARAMETERS, PROMPT, SYSTEM_PROMPT, is_said
from cosmos_batch.planning.generation.metadata import KEYS as GENERATOR_KEYS

# What begins so is meant for us. VAMS's other pipelines have names of their own, such as COSMOS_PREDICT_PROMPT.
_OURS = ("COSMOS_REASON_", "COSMOS3_")
_KNOWN = {PROMPT, SYSTEM_PROMPT, *PARAMETERS, *GENERATOR_KEYS}
_NAME_LIMIT = 80  # characters of a name that a fault quotes


def unknown_settings(source: dict[str, Any]) -> list[str]:
    """A sentence for each key of metadata that is written as one of ours and is none. Blank ones say nothing."""
    written = {key.upper().replace("-", "_") for key, value in source.items() if is_said(value)}
    return [_unknown(key) for key in sorted(written) if key.startswith(_OURS) and key not in _KNOWN]


def _unknown(key: str) -> str:
    similar = get_close_matches(key, sorted(_KNOWN), 1)
    return f"{key[:_NAME_LIMIT]}: there is no such setting" + (f"; is {similar[0]} meant?" if similar else ".")
