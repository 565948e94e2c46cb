"""Build PhyAI's own requests from our driver's, in an environment of PhyAI.

It reads `{"source": folder of PhyAI, "cases": {name: request, or {"plan"}}}` from standard input and writes `{"python",
"verdicts"}`: for each case whether it was accepted, and its shapes. PhyAI's compiled extension is a mock; the tokenizer
is the demo's tiny one.
"""

import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np

ROOT = Path(__file__).resolve().parents[4]
_PACKAGES = ("phyai", "phyai-utils-tools", "phyai-kernel")


def main() -> None:
    """Read the requests from standard input, and write the verdicts to standard output."""
    order = json.load(sys.stdin)
    source = Path(order["source"]).absolute()
    sys.path[:0] = [str(ROOT), *(str(source / name / "src") for name in _PACKAGES)]
    sys.modules |= {name: MagicMock() for name in ("phyai_ext", "phyai_ext.radix_cache")}
    output, sys.stdout = sys.stdout, sys.stderr
    from cosmos_batch.demo.tokenizer import train_tokenizer, write_tokenizer

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("text_tokenizer").mkdir()
        write_tokenizer(Path("text_tokenizer"), train_tokenizer())
        verdicts = {name: _verdict(request) for name, request in order["cases"].items()}
        os.chdir("/")
    json.dump({"python": sys.version.split()[0], "verdicts": verdicts}, output)


def _verdict(content: dict[str, Any]) -> dict[str, Any]:
    from cosmos_batch.engines.generator.phyai.driver import action_request, engine_arguments, video_request

    try:
        if "plan" in content:
            arguments = engine_arguments(".", content["plan"]["tp"], content["plan"]["cfg"], "0")
            return {"accepted": True, "changed": {}, "means": asdict(arguments.config.parallel)}
        _write_frames(content)
        make = video_request if content["mode"] == "video" else action_request
        request = make(content, "text_tokenizer")
    except ValueError as error:
        return {"accepted": False, "error": " ".join(str(error).split())[:300]}
    attributes = vars(request)
    means = {name: value for name, value in attributes.items() if isinstance(value, int | float | str | tuple)}
    means |= {
        name: list(value.shape) for name, value in attributes.items() if hasattr(value, "shape") and "text" not in name
    }
    latent = request.video_shape
    return {"accepted": True, "changed": {}, "means": means, "size": [latent[2] * 16, latent[1] * 16]}


def _write_frames(content: dict[str, Any]) -> None:
    count = max(content["condition_frames"], default=0) * 4 + 1
    count = content["num_frames"] if content["mode"] == "inverse_dynamics" else count
    np.save("given.npy", np.zeros((count, content["height"], content["width"], 3), np.uint8))


if __name__ == "__main__":
    main()
