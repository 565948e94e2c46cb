"""What compiled code depends on, and where its libraries keep it."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_LIBRARIES = ("vllm", "diffusers", "torch", "triton", "flashinfer-python", "torchao")
_QUERY = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
_QUERY_SECONDS = 60  # the first call on a host starts the driver


def compiled_for(gpus: int) -> dict[str, str]:
    """All of it but the model: what differs in one of these is compiled anew."""
    return {
        **{name: installed_version(name) for name in _LIBRARIES},
        "python": platform.python_version(),
        "processor": f"{platform.system()} {platform.machine()}",
        "gpus": _gpus() if gpus else "none",
    }


def cache_variables(folder: Path) -> dict[str, str]:
    """Environment variables that have vLLM, torch, Triton, FlashInfer and the driver keep all of it in one folder."""
    return {
        "VLLM_CACHE_ROOT": str(folder / "vllm"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "FLASHINFER_WORKSPACE_BASE": str(folder / "flashinfer"),
        "CUDA_CACHE_PATH": str(folder / "cuda"),
    }


def installed_version(library: str) -> str:
    """Of an installed library; "none" where it is not."""
    try:
        return version(library)
    except PackageNotFoundError:
        return "none"


def _gpus() -> str:
    """Names with the driver's version, as the driver tells them; their libraries' own keys hold where it does not."""
    try:
        told = subprocess.run(_QUERY, capture_output=True, text=True, timeout=_QUERY_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return "; ".join(line.strip() for line in told.stdout.splitlines())
