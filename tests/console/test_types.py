"""The types of the page, which are written by hand, and the models of the server that they stand for."""

import re

import pytest

from cosmos_batch.console import new_run_records, records, run_records
from cosmos_batch.contract.base import Model
from tests.console.conftest import ROOT

TYPES = (ROOT / "cosmos_batch" / "console" / "page" / "src" / "types.ts").read_text(encoding="utf-8")
INTERFACES = dict(re.findall(r"^export interface (\w+) \{\n(.*?)^\}", TYPES, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("name", INTERFACES)
def test_a_type_of_the_page_has_the_name_and_the_fields_of_a_model(name: str) -> None:
    found = [getattr(module, name) for module in (records, run_records, new_run_records) if hasattr(module, name)]
    assert found and issubclass(found[0], Model), f"no model is named {name}"
    aliases = {str(field.alias) for field in found[0].model_fields.values()}
    assert set(re.findall(r"^  (\w+):", INTERFACES[name], re.MULTILINE)) == aliases
