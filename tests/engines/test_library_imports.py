"""Importing torchvision with and without its compiled operators."""

import sys
from types import SimpleNamespace

import pytest

from cosmos_batch.engines.library_imports import import_torchvision


def test_a_working_torchvision_is_imported_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "torchvision", whole)
    import_torchvision()
    assert sys.modules["torchvision"] is whole


def test_other_errors_of_torchvision_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "torchvision":
                raise RuntimeError("libcuda is too old")

    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(RuntimeError, match="libcuda"):
        import_torchvision()
