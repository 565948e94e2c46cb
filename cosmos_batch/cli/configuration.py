"""The configuration that is deployed on this machine: config.json, or a copy of it with changes."""

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cosmos_batch.catalogue.engines import ENDPOINT
from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.input_checks import chosen_pipeline, chosen_reasoner
from cosmos_batch.cli.local_cloud import default_home
from cosmos_batch.contract.config import Config
from cosmos_batch.contract.model_name import MODEL_NAME_PATTERN
from cosmos_batch.planning.configuration import parse_config
from cosmos_batch.planning.deployment import EnabledPipeline, enabled_pipelines
from cosmos_batch.store.checkpoint_folder import is_checkpoint

ROOT = Path(__file__).resolve().parents[2]
CONFIG = Path(os.environ.get("COSMOS_BATCH_CONFIG") or ROOT / "config.json")

# The variables by which NVIDIA's cookbooks name a server that runs already. Cookbooks on actions, which only Nano
# supports, use the last one.
_SERVERS = {
    "cosmos3-nano": ("COSMOS3_VLLM_NANO_BASE_URL", "COSMOS3_VLLM_BASE_URL"),
    "cosmos3-super": ("COSMOS3_VLLM_SUPER_BASE_URL",),
}
_BLOCKS = {"reasoner": ("useNvidiaCosmos", "modelsReason"), "generator": ("useNvidiaCosmos3", "modelsOmni")}


def enabled_pipeline(config: Config, name: str | None) -> EnabledPipeline:
    """Return the named pipeline, or the smallest one for None. Raises WrongCall where it is not enabled."""
    enabled = {entry.pipeline.id: entry for entry in enabled_pipelines(config)}
    return enabled[chosen_pipeline(name, list(enabled))]


def enabled_reasoner(config: Config, name: str | None) -> EnabledPipeline:
    """Return the named reasoner, or the smallest one for None. Raises WrongCall where it is not enabled."""
    enabled = {entry.pipeline.id: entry for entry in enabled_pipelines(config)}
    return enabled[chosen_reasoner(name, list(enabled))]


def checked_model(model: str) -> str:
    """Return a Hugging Face id as it is, and a checkpoint's folder as an absolute path. Raises WrongCall."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        if not is_checkpoint(folder):
            raise WrongCall(
                f"{model} is a folder, but no checkpoint: it has no config.json or model_index.json.",
                "Name another folder.",
            )
        return str(folder.resolve())
    if model.startswith(("/", ".", "~")):
        raise WrongCall(f"There is no folder {model}.", "Name a checkpoint's folder, or a Hugging Face id (org/name).")
    if not re.fullmatch(MODEL_NAME_PATTERN, model):
        raise WrongCall(
            f"{model} is neither a checkpoint's folder nor a Hugging Face id.",
            "Name a folder that exists, or an id such as nvidia/Cosmos-Reason2-2B (org/name, or org/name@revision).",
        )
    return model


def servers() -> dict[str, str]:
    """Return the base URLs of servers that run already, by pipeline, smallest first, from NVIDIA's variables."""
    addresses = {
        pipeline: next((address for name in names if (address := os.environ.get(name))), None)
        for pipeline, names in _SERVERS.items()
    }
    return {pipeline: f"{address.rstrip('/')}/v1" for pipeline, address in addresses.items() if address}


def served(pipeline: str, guardrails: bool | None) -> dict[str, Any]:
    """Return the changes that set a pipeline to the server that runs already for it; none where there is no server.

    A server does not tell whether it was started with guardrails: WrongCall is raised where the person does not either.
    """
    address = servers().get(pipeline)
    if address is None:
        return {}
    if guardrails is None:
        raise WrongCall(
            f"The server at {address} does not tell whether it was started with guardrails.",
            "Type --guardrails if it was, and --no-guardrails if it was not or if nothing is to be checked.",
        )
    return {"engine": ENDPOINT, "endpoint": {"url": address}, "guardrails": guardrails}


def with_entry(pipeline: Pipeline, changes: dict[str, Any]) -> Path:
    """Write a copy of config.json with changes in the entry of one pipeline, and return its path."""
    return with_entries([(pipeline, changes)])


def with_entries(entries: Iterable[tuple[Pipeline, dict[str, Any]]]) -> Path:
    """Write a copy of config.json with changes in the entries of pipelines, and return its path.

    Only its owner can read the copy, because it may hold the Hugging Face token.
    """
    parsed = json.loads(CONFIG.read_text(encoding="utf-8"))
    for pipeline, changes in entries:
        block, models = _BLOCKS[pipeline.surface]
        surface = parsed["app"]["pipelines"].setdefault(block, {})
        surface["enabled"] = True
        configured = surface.setdefault(models, {})
        configured[pipeline.config_key] = {**configured.get(pipeline.config_key, {}), **changes}
    text = json.dumps(parsed, indent=2)
    parse_config(text)
    path = default_home() / "configurations" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    return path
