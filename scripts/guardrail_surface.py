"""Record what we use of Cosmos Framework's guardrails, with which the tests compare their stand-in.

    .venv/bin/python scripts/guardrail_surface.py [--source FOLDER]

It fetches the framework at the commit that its image has and reads its source. Nothing of it runs: that needs a GPU.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from argument_models import ROOT, fetched

sys.path.insert(0, str(ROOT))

from tests.engines.generator.argument_models.framework import COMMIT, REPOSITORY
from tests.support.source_surface import attributes_of, functions_of

RECORD = ROOT / "tests" / "engines" / "framework_standin" / "guardrails.json"
FUNCTIONS = {
    "auxiliary/guardrail/common/core.py": ("GuardrailRunner.run_safety_check", "GuardrailRunner.postprocess"),
    "auxiliary/guardrail/common/presets.py": (
        "create_text_guardrail_runner",
        "create_video_guardrail_runner",
        "run_text_guardrail",
    ),
    "auxiliary/guardrail/blocklist/blocklist.py": ("Blocklist.is_safe",),
    "auxiliary/guardrail/qwen3guard/qwen3guard.py": ("Qwen3Guard.extract_label_and_categories", "Qwen3Guard.is_safe"),
    "inference/common/inference.py": (
        "Inference._run_text_guardrail",
        "Inference._run_video_guardrail",
        "_run_video_guardrail",
    ),
    "utils/checkpoint_db.py": ("_CheckpointHf.download",),
}
CLASSES = {
    "auxiliary/guardrail/common/core.py": ("GuardrailRunner",),
    "auxiliary/guardrail/blocklist/blocklist.py": ("Blocklist",),
    "inference/common/inference.py": ("GuardrailRunners", "Inference"),
    "utils/checkpoint_db.py": ("_CheckpointHf",),
}


def main() -> None:
    """Write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, help="A checkout of that commit that is there already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = options.source or fetched(REPOSITORY, COMMIT, Path(folder) / "source")
        RECORD.write_text(json.dumps(record_of(source / "cosmos_framework"), indent=1) + "\n", encoding="utf-8")
    print(f"wrote {RECORD.relative_to(ROOT)}")


def record_of(source: Path) -> dict[str, Any]:
    """Return the functions and attributes that we use, as the source has them."""
    return {
        "source": f"cosmos_framework of github.com/{REPOSITORY}",
        "commit": COMMIT,
        "how": "scripts/guardrail_surface.py: read from the source, nothing of it was run",
        "functions": {name: functions_of(source / path)[name] for path, names in FUNCTIONS.items() for name in names},
        "attributes": {name: attributes_of(source / path)[name] for path, names in CLASSES.items() for name in names},
    }


if __name__ == "__main__":
    main()
