"""What is written is what is there."""

import importlib.util
from pathlib import Path
from types import ModuleType

from pydantic import BaseModel

from cosmos_batch.contract import Config

ROOT = Path(__file__).resolve().parent.parent


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_configuration_reference_is_current() -> None:
    page = script("configuration_reference").page()
    assert (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8") == page, "run: make docs"


def test_every_field_of_the_configuration_is_described() -> None:
    seen: dict[type[BaseModel], str] = {}
    for _ in script("configuration_reference")._blocks(Config, "", seen):
        pass
    undescribed = [
        f"{model.__name__}.{name}"
        for model in seen
        for name, field in model.model_fields.items()
        if not field.description
    ]
    assert Config in seen and not undescribed
