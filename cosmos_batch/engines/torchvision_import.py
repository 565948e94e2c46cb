"""Importing torchvision where its compiled operators are missing.

PyPI's torchvision is linked to CUDA. Beside a CPU build of torch its library cannot be loaded, which it bears, but it
still registers shape functions for two operators of that library and dies with "operator torchvision::nms does not
exist". The transforms that processors use need neither operator, so declaring both is enough.
"""

import sys
from importlib import import_module
from typing import Any

_OPERATORS = ("nms", "qnms")
_declared: list[object] = []  # a library's operators live as long as the object that declared them


def import_torchvision() -> None:
    """Import torchvision, with the two operators declared if it cannot be imported without. Needs torch."""
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        _declare_operators()
        _forget_half_imported()
        import torchvision  # noqa: F401


def _declare_operators() -> None:
    torch_library: Any = import_module("torch.library")
    library = torch_library.Library("torchvision", "FRAGMENT")
    for name in _OPERATORS:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)


def _forget_half_imported() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
