"""Lets PyPI's torchvision, which is linked to CUDA, be imported beside a CPU build of torch.

Its library cannot be loaded there, which it bears, but it still registers shape functions for two operators of that
library and dies with "operator torchvision::nms does not exist". This module declares both just before. It is imported
at the start of every interpreter, by the `.pth` file beside it, and then costs nothing until torchvision is imported.
"""

import sys

_declared: list[object] = []  # a library's operators live as long as the object that declared them


class _Declare:
    """A finder that finds nothing: it is told of each import before it happens."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "torchvision._meta_registrations" and not sys.modules["torchvision.extension"]._has_ops():
            from torch.library import Library

            library = Library("torchvision", "FRAGMENT")
            for operator in ("nms", "qnms"):
                library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _declared.append(library)


sys.meta_path.insert(0, _Declare)
