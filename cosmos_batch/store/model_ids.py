"""The ids of models: on the Hugging Face Hub, or as a folder's path; and the directory name for an id."""

import re
from pathlib import Path

from cosmos_batch.contract.error import Failure

# These are the rules of the Hub. A part neither begins nor ends with `-` or `.`, and contains neither `--` nor `..`. So
# `--` in a directory name can only be the separator, and no two models share a directory.
_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
_MODEL_ID = re.compile(f"{_PART}/{_PART}")
_LONGEST_ID = 96


def is_folder(model: str) -> bool:
    """Return whether `model` is the path of a checkpoint folder, and not an id of the Hub."""
    return Path(model).is_absolute()


def directory_name(model: str) -> str:
    """Return `org--name` for the Hugging Face id `org/name`.

    Raises:
        Failure: `ModelUnavailable` if `model` is not an id of the Hub.
    """
    well_formed = _MODEL_ID.fullmatch(model) and len(model) <= _LONGEST_ID
    if not well_formed or "--" in model or ".." in model or model.endswith(".git"):
        raise Failure(
            "ModelUnavailable",
            f"{model[:200]!r} is not the name of a model.",
            "Write a Hugging Face id such as nvidia/Cosmos-Reason2-2B. A pipeline's `model` may also be the absolute "
            "path of a checkpoint folder.",
        )
    return model.replace("/", "--")
