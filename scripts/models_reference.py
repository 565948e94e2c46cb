"""Write the table of `docs/models.md`: NVIDIA's models, and which of them the catalogue has. `make docs` runs this.

The list is updated by hand: look at huggingface.co/collections/nvidia/cosmos3 and at the page of models of Cosmos
Framework (nvidia.github.io/cosmos-framework/models), add what is new, and change `LOOKED_AT`. A test fails until the
catalogue has a new model, or this list says why not.
"""

import sys
from pathlib import Path

from tables import filled, line, table

from cosmos_batch.catalogue.pipelines import PIPELINES

TARGET = Path(__file__).resolve().parent.parent / "docs" / "models.md"
LOOKED_AT = "November 2026"

_POLICY = "serves a robot step by step, in a loop with it; jobs of files have mode `policy` on Nano and Edge"
_DRIVING = "takes and makes videos of several cameras at once, which no mode of ours does"

# Each of NVIDIA's models: None if the catalogue is to have it, or else the reason why not.
MODELS: dict[str, str | None] = {
    "nvidia/Cosmos-Reason2-2B": None,
    "nvidia/Cosmos-Reason2-8B": None,
    "nvidia/Cosmos-Reason2-32B": None,
    "nvidia/Cosmos3-Edge": None,
    "nvidia/Cosmos3-Nano": None,
    "nvidia/Cosmos3-Super": None,
    "nvidia/Cosmos3-Super-Text2Image": None,
    "nvidia/Cosmos3-Super-Image2Video": None,
    "nvidia/Cosmos3-Super-Text2Image-4Step": None,
    "nvidia/Cosmos3-Super-Image2Video-4Step": None,
    "nvidia/Cosmos3-Nano-Policy-DROID": _POLICY,
    "nvidia/Cosmos3-Edge-Policy-DROID": _POLICY,
    "nvidia/Cosmos3-Nano-Transfer-Auto": _DRIVING,
    "nvidia/Cosmos3-Nano-Sim-Auto": f"{_DRIVING}; and chunk by chunk, with a model that is distilled",
    "nvidia/Cosmos3-Nano-Sim-Transfer": "no engine of ours lists it among its models yet",
    "nvidia/Cosmos3-Nano-Sim-Bimanual": "no engine of ours lists it among its models yet",
}


def page(text: str) -> str:
    """Return the page with its table regenerated."""
    return filled(text, {"models": _models()})


def missing() -> list[str]:
    """Return the models that the catalogue lacks, although nothing here says why."""
    ours = {pipeline.model for pipeline in PIPELINES}
    return [model for model, reason in MODELS.items() if reason is None and model not in ours]


def unlisted() -> list[str]:
    """Return NVIDIA's models of the catalogue that the list lacks, or says to be lacking."""
    return sorted({pipeline.model for pipeline in PIPELINES if MODELS.get(pipeline.model, "unlisted") is not None})


def _models() -> str:
    keys = {
        model: ", ".join(f"`{pipeline.config_key}`" for pipeline in PIPELINES if pipeline.model == model)
        for model in MODELS
    }
    rows = [line(model, keys[model] or "no", reason or "") for model, reason in MODELS.items()]
    return table(f"| model, as of {LOOKED_AT} | in the configuration | why not |", rows)


if __name__ == "__main__":
    sys.exit(TARGET.write_text(page(TARGET.read_text(encoding="utf-8")), encoding="utf-8") and 0)
