"""Lets PyPI's torchvision, which is linked to CUDA, import beside a CPU build of torch.

Its compiled operators cannot be loaded there, and `torchvision._meta_registrations` then fails on two of them that
nobody declared. This declares them just before. Transforms, which is what processors of models use, need none of the
operators. A `.pth` file imports this module at every start of Python; it costs nothing until torchvision is imported.
"""

import sys


class _BeforeMetaRegistrations:
    """Finds nothing; it is asked at the right moment."""

    @staticmethod
    def find_spec(fullname: str, *_: object) -> None:
        extension = sys.modules.get("torchvision.extension")
        if fullname == "torchvision._meta_registrations" and extension is not None and not extension._has_ops():
            _declare(extension)


def _declare(extension: object) -> None:
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    # A library's declarations live as long as it does.
    extension.cpu_library = library  # type: ignore[attr-defined]


sys.meta_path.insert(0, _BeforeMetaRegistrations)  # type: ignore[arg-type]
