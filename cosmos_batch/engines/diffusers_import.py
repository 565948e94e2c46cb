"""Importing Diffusers without what the libraries below it say to nobody who could change it."""

import logging
import warnings
from importlib import import_module
from typing import Any

from cosmos_batch.engines.torchvision_import import import_torchvision

_BESIDE_THE_POINT = (
    "torchao",  # kernels of its own that it cannot load, which nothing here calls
    "torch.utils._pytree",  # how torchao registers its classes
    "diffusers.quantizers.torchao.torchao_quantizer",  # checkpoints that were saved by torchao, which ours are not
)
_OLD_WEIGHT_NORM = "torch.nn.utils.weight_norm"  # the sound's VAE is written with it


def import_diffusers() -> Any:
    """Import it, which takes seconds; most of its modules follow when they are used. Needs torch."""
    for name in _BESIDE_THE_POINT:
        logging.getLogger(name).disabled = True
    warnings.filterwarnings("ignore", category=FutureWarning, module=_OLD_WEIGHT_NORM)
    import_torchvision()
    return import_module("diffusers")
