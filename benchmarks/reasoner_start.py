"""The start of a worker's engine on a new machine, phase by phase, without and with the kept caches.

    python -m benchmarks.reasoner_start MODEL

Starts in a process of its own, from its interpreter's first line to the first answer; nothing of the model is in the
page cache, where that can be emptied.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.said import said_last

BEGAN = time.time()

# What vLLM says of its phases, in seconds.
_PHASES = {
    "weights": r"Loading weights took ([\d.]+)",
    "model": r"Model loading took .*? ([\d.]+) s",
    "compile": r"torch\.compile .*?(?:takes|took) ([\d.]+) s",
    "graphs": r"Graph capturing finished in ([\d.]+)",
    "engine": r"init engine .*? took ([\d.]+)",
}


def measure(model: Path, work: Path) -> dict[str, Any]:
    """Without the caches, then with what that start left of them."""
    found: dict[str, Any] = {}
    shutil.rmtree(work / "cache", ignore_errors=True)
    for name in ("without", "with"):
        _forget_files()
        began = time.time()
        command = [sys.executable, "-m", "benchmarks.reasoner_start", str(model)]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        found[name] = {"began": began, **said_last(said)}
    return found


def cache_folders(root: Path) -> dict[str, str]:
    """Everything that vLLM and what it uses compile, below one folder."""
    return {
        "VLLM_CACHE_ROOT": str(root),
        "TORCHINDUCTOR_CACHE_DIR": str(root / "inductor"),
        "TRITON_CACHE_DIR": str(root / "triton"),
        "FLASHINFER_WORKSPACE_BASE": str(root / "flashinfer"),
    }


def _forget_files() -> None:
    """Of a new machine, none is in memory. Where that is not allowed, they stay."""
    os.sync()
    with contextlib.suppress(OSError):
        Path("/proc/sys/vm/drop_caches").write_text("3")


def main() -> None:
    """Load, answer one question, say how long each took."""
    import asyncio

    from cosmos_batch.engines.vllm import VllmEngine

    imported = time.time()
    engine: Any = VllmEngine()
    engine.load(Path(sys.argv[1]))
    loaded = time.time()
    body = {"model": "cosmos", "messages": [{"role": "user", "content": "Begin."}], "max_tokens": 8}
    asyncio.run(_ask(engine, body))
    answered = time.time()
    engine.close()
    said = engine.startup_logs
    print(
        json.dumps(
            {
                "import": imported - BEGAN,
                "load": loaded - imported,
                "answer": answered - loaded,
                "seconds": answered - BEGAN,
                "phases": _phases(said),
                "said": said,
            }
        )
    )


async def _ask(engine: Any, body: dict[str, Any]) -> None:
    response = await engine._client.post("/v1/chat/completions", json=body)
    response.raise_for_status()


def _phases(said: list[str]) -> dict[str, float]:
    found = {}
    for name, pattern in _PHASES.items():
        for line in said:
            if match := re.search(pattern, line):
                found[name] = float(match[1])
    return found


if __name__ == "__main__":
    main()
