"""FlashAttention 3, which computes the same as PyTorch's own attention, faster on the GPUs that it was written for."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from cosmos_batch.engines.journal import Journal

HOPPER = 9  # major compute capability of H100 and H200; those before and after gain nothing by it


def flash_attention(journal: Journal) -> Callable[..., Any] | None:
    """Its kernel for this machine's GPU; None where it has none, or cannot be loaded, of which the journal tells."""
    import torch

    if torch.cuda.get_device_capability()[0] != HOPPER:
        return None
    try:
        kernel: Callable[..., Any] = import_module("fa3_fwd_interface").flash_attn_func
    except (ImportError, OSError) as error:
        told = f"{type(error).__name__}: {error}"
        journal.note(f"attention is PyTorch's own, and slower for it, until fa3-fwd is installed: {told}")
        return None
    return kernel
