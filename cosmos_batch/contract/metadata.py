"""What a person writes beside a file: the first name is one that users of VAMS know, the others are ours."""

from typing import Any

from cosmos_batch.contract.parameters import NAMES

PROMPT = "COSMOS_REASON_PROMPT"
SYSTEM_PROMPT = "COSMOS_REASON_SYSTEM_PROMPT"
PIPELINE = "COSMOS_PIPELINE"

# COSMOS_REASON_MAX_TOKENS and so on: the name in JSON of what each of these keys says.
PARAMETERS = {f"COSMOS_REASON_{name.upper()}": alias for alias, name in NAMES.items()}

# `<key>.metadata.json`, a JSON object, carries what is too long for S3's 2 KB of metadata.
SIDECAR_SUFFIX = ".metadata.json"


def is_said(value: Any) -> bool:
    """Whether a form or a file's metadata says something with a value: blank is nothing."""
    return value is not None and not (isinstance(value, str) and not value.strip())
