"""Compiled code: what it depends on, and where the libraries that compile keep it."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_LIBRARIES = ("torch", "triton", "flashinfer-python", "torchao")
_QUERY = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
_QUERY_SECONDS = 60  # the first call on a host starts the driver


def compiled_for(gpus: int, *libraries: str) -> dict[str, str]:
    """Return the facts that compiled code depends on beside the model. If one of them changes, it is compiled again.

    Parameters
    ----------
    gpus
        GPUs of the engine; 0 for the CPU.
    libraries
        Distributions whose version matters beside those of torch and its compilers.
    """
    return {
        **{name: installed_version(name) for name in (*libraries, *_LIBRARIES)},
        "python": platform.python_version(),
        "processor": f"{platform.system()} {platform.machine()}",
        "gpus": _gpus() if gpus else "none",
    }


def cache_variables(folder: Path) -> dict[str, str]:
    """Return environment variables with which torch, Triton, FlashInfer and the driver keep compiled
    code in a folder.
    """
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "FLASHINFER_WORKSPACE_BASE": str(folder / "flashinfer"),
        "CUDA_CACHE_PATH": str(folder / "cuda"),
    }


def installed_version(library: str) -> str:
    """Return the version of an installed library, or "none"."""
    try:
        return version(library)
    except PackageNotFoundError:
        return "none"


def _gpus() -> str:
    """Return the GPUs' names with the driver's version, or "unknown" where the driver does not answer.

    The caches of the libraries have keys of their own for both, so "unknown" is safe.
    """
    try:
        answer = subprocess.run(_QUERY, capture_output=True, text=True, timeout=_QUERY_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return "; ".join(line.strip() for line in answer.stdout.splitlines())
