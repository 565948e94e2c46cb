"""The keys of a file's metadata, tags and sidecar that set a request. Users of VAMS know `COSMOS_REASON_PROMPT`."""

from typing import Any

from cosmos_batch.contract.parameters import NAMES

PROMPT = "COSMOS_REASON_PROMPT"
SYSTEM_PROMPT = "COSMOS_REASON_SYSTEM_PROMPT"
PIPELINE = "COSMOS_PIPELINE"

# The parameter that each key sets, by its name in JSON: COSMOS_REASON_MAX_TOKENS sets maxTokens, and so on.
PARAMETERS = {f"COSMOS_REASON_{name.upper()}": alias for alias, name in NAMES.items()}

# `<key>.metadata.json`, a JSON object, contains values that are too long for the 2 KB of S3's metadata.
SIDECAR_SUFFIX = ".metadata.json"


def normalized_key(key: str) -> str:
    """Return a key as it is documented. S3 lower-cases the keys of user metadata, and HTTP tools write `-` for `_`."""
    return key.upper().replace("-", "_")


def is_set(value: Any) -> bool:
    """Return whether a value of a form or of metadata is set; a blank one is not."""
    return value is not None and not (isinstance(value, str) and not value.strip())
