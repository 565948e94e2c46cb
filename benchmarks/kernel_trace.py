"""Read traces of PyTorch's profiler, with which vLLM's servers can be started: the GPU's seconds by kind of kernel."""

import json
from pathlib import Path
from typing import Any

LONGEST = 40  # kernels that are kept by name
_ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")  # categories of a trace's events
_KERNELS = {
    "compiled": ("triton_",),  # their names may hold those of the products that they prepare
    "attention": ("sdpa", "flash", "fmha", "attention"),
    "convolutions": ("conv", "fprop"),
    "products": ("gemm", "nvjet", "cublas", "cutlass"),
    "copies": ("memcpy", "memset"),
}
"""What a name of a kernel holds, by the kind that it makes it; the first that fits."""


def profiler_options(folder: Path) -> list[str]:
    """Return the options with which a server of vLLM writes traces below a folder once it is asked to."""
    profiler = {"profiler": "torch", "torch_profiler_dir": str(folder), "torch_profiler_use_gzip": False}
    return ["--profiler-config", json.dumps({**profiler, "torch_profiler_with_stack": False})]


def newest_trace(folder: Path, pattern: str) -> Path:
    """Return the trace that was written last."""
    return max(folder.rglob(pattern), key=lambda path: path.stat().st_mtime)


def kernel_seconds(trace: Path) -> dict[str, Any]:
    """Return the GPU's seconds in a trace: by kind of kernel, of the longest ones by name, busy, and from end to end.

    `busy` counts kernels that run at the same time once, and the kinds count each of them.
    """
    by_name: dict[str, float] = {}
    spans: list[tuple[float, float]] = []
    for event in json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]:
        if event.get("cat") in _ON_GPU:
            by_name[event["name"]] = by_name.get(event["name"], 0.0) + event["dur"] / 1e6
            spans.append((event["ts"] / 1e6, (event["ts"] + event["dur"]) / 1e6))
    by_kind: dict[str, float] = {}
    for name, seconds in by_name.items():
        by_kind[kernel_kind(name)] = by_kind.get(kernel_kind(name), 0.0) + seconds
    longest = sorted(by_name.items(), key=lambda item: -item[1])[:LONGEST]
    return {
        "kinds": {kind: round(seconds, 3) for kind, seconds in by_kind.items()},
        "longest": {name: round(seconds, 4) for name, seconds in longest},
        **busy_seconds(spans),
    }


def busy_seconds(spans: list[tuple[float, float]]) -> dict[str, float]:
    """Return for how long at least one of the spans lasts, and the time from the first start to the last end."""
    busy, until = 0.0, 0.0
    for start, end in sorted(spans):
        busy += max(0.0, end - max(start, until))
        until = max(until, end)
    return {"busy": round(busy, 3), "span": round(until - min(spans)[0], 3) if spans else 0.0}


def kernel_kind(kernel: str) -> str:
    """Return the kind of a kernel by its name: one of `_KERNELS`, or `other`."""
    name = kernel.lower()
    return next((kind for kind, parts in _KERNELS.items() if any(part in name for part in parts)), "other")
