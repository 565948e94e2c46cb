"""Importing torchvision and Diffusers, with workarounds for what fails or warns when they are imported."""

import logging
import sys
import warnings
from importlib import import_module
from typing import Any

_OPERATORS = ("nms", "qnms")
_declared: list[object] = []  # torch drops a library's operators when the object that declared them is freed

# Loggers whose warnings at import need no action.
_SILENCED = (
    "torchao",  # optional kernels that cannot be loaded and are not used here
    "torch.utils._pytree",  # deprecated way in which torchao registers its classes
    "diffusers.quantizers.torchao.torchao_quantizer",  # for checkpoints that torchao saved, which Cosmos's are not
)
_OLD_WEIGHT_NORM = "torch.nn.utils.weight_norm"  # deprecated; the VAE of sound is written with it


def import_torchvision() -> None:
    """Import torchvision, also where its compiled operators cannot be loaded. Needs torch.

    PyPI's torchvision is linked to CUDA. Beside a CPU build of torch it runs without its compiled library, but it still
    registers shape functions for two operators of that library and fails with "operator torchvision::nms does not
    exist". The transforms that processors use need neither operator, so this declares both and imports it again.
    """
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        _declare_operators()
        _forget_partial_import()
        import torchvision  # noqa: F401


def import_diffusers() -> Any:
    """Import Diffusers without warnings of the libraries below it, and return it. Needs torch; takes seconds."""
    for name in _SILENCED:
        logging.getLogger(name).disabled = True
    warnings.filterwarnings("ignore", category=FutureWarning, module=_OLD_WEIGHT_NORM)
    import_torchvision()
    return import_module("diffusers")


def _declare_operators() -> None:
    torch_library: Any = import_module("torch.library")
    library = torch_library.Library("torchvision", "FRAGMENT")
    for name in _OPERATORS:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)


def _forget_partial_import() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
