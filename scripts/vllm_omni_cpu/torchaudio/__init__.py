"""Stand in for PyPI's torchaudio, which is linked to CUDA: vLLM-Omni imports it for models that are not run here."""

import sys
from types import ModuleType
from typing import Any, ClassVar

__version__ = "0"


class _Nothing(ModuleType):
    """A module in which everything can be imported, and nothing called."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _absent


def _absent(*_: Any, **__: Any) -> Any:
    raise RuntimeError("torchaudio is not installed here")


for _name in ("functional", "transforms", "compliance", "compliance.kaldi", "models", "pipelines"):
    sys.modules[f"{__name__}.{_name}"] = _Nothing(f"{__name__}.{_name}")
__getattr__ = _Nothing(__name__).__getattr__
