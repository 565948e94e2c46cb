"""The documentation agrees with the code: generated pages, examples, and the names of files."""

import importlib.util
import json
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import BaseModel

from cosmos_batch.contract.config import Config
from cosmos_batch.contract.request import Request
from cosmos_batch.planning.configuration import parse_config
from cosmos_batch.planning.deployment import enabled_pipelines
from cosmos_batch.planning.generation.request_file import read_request_file
from cosmos_batch.planning.requests import read_request
from tests.support.command_line import parse

ROOT = Path(__file__).resolve().parent.parent
WORDS_OF_A_PAGE = 600


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    if str(ROOT / "scripts") not in sys.path:  # where Python looks when a script is run
        sys.path.append(str(ROOT / "scripts"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_configuration_reference_is_current() -> None:
    page = script("configuration_reference").page()
    assert (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8") == page, "run: make docs"


def test_the_table_of_metadata_keys_is_current() -> None:
    page = script("metadata_reference").page()
    assert (ROOT / "docs" / "metadata.md").read_text(encoding="utf-8") == page, "run: make docs"


def test_each_decision_is_in_the_index_and_a_page_at_most() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    decisions = sorted(folder.glob("[0-9]*.md"))
    assert re.findall(r"\]\((.*?)\)", index) == [one.name for one in decisions]
    too_long = [one.name for one in decisions if len(one.read_text(encoding="utf-8").split()) > WORDS_OF_A_PAGE]
    assert not too_long


def test_the_glossary_has_at_most_thirty_terms_in_alphabetical_order() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    glossary = page.partition("| term | is |\n| --- | --- |\n")[2]
    rows = [row.split("|")[1].strip() for row in glossary.splitlines()]
    terms = [term for row in rows for term in row.split(", ")]
    assert 20 <= len(terms) <= 30 and rows == sorted(rows)


@pytest.mark.parametrize("name", ["reasoner", "generator", "generator-engines", "costs", "models"])
def test_the_tables_of_a_page_are_current(name: str) -> None:
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    assert script(f"{name.replace('-', '_')}_reference").page(page) == page, "run: make docs"


def test_the_catalogue_has_each_model_of_nvidia_that_the_list_does_not_excuse() -> None:
    models = script("models_reference")
    assert models.missing() == [] and models.unlisted() == []


def test_requests_in_the_reasoners_page_are_requests() -> None:
    page = (ROOT / "docs" / "reasoner.md").read_text(encoding="utf-8")
    examples = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    requests = [Request.model_validate(one) for one in examples if isinstance(one, dict) and "pipeline" in one]
    assert {one.parameters.task for one in requests} >= {"2d-grounding", None}


def test_what_the_generators_page_says_can_be_said() -> None:
    page = (ROOT / "docs" / "generator.md").read_text(encoding="utf-8")
    commands = [shlex.split(text)[1:] for text in re.findall(r"`(cosmos-batch generate [^`]*)`", page)]
    values = [parse(command) for command in commands if len(command) > 1]
    modes = {options["mode"] for options in values}
    assert modes >= {"t2i", "transfer", "forward_dynamics", "inverse_dynamics", "policy", None}
    assert all(options["guardrails"] is False for options in values if options["prompt"]), "a pasted line must work"
    file, request = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL))
    assert read_request_file(json.dumps(file).encode()).parameters.controls is not None
    assert read_request(request).generation is not None


def test_the_example_of_a_nim_is_a_configuration_with_one_worker() -> None:
    page = (ROOT / "docs" / "generator-engines.md").read_text(encoding="utf-8")
    (entry,) = re.findall(r'```\n("nano16B": .*?)```', page, re.DOTALL)
    block = {"enabled": True, "modelsOmni": json.loads(f"{{{entry}}}")}
    (nano,) = enabled_pipelines(parse_config(json.dumps({"app": {"pipelines": {"useNvidiaCosmos3": block}}})))
    assert nano.endpoint is not None and nano.endpoint.api == "nim" and nano.resources.vcpus == nano.max_vcpus


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


def test_files_of_ours_that_are_named_are_there() -> None:
    """Pages, docstrings and comments name files by a path from the root of the repository or from `cosmos_batch`."""
    roots = (ROOT, ROOT / "cosmos_batch")
    packages = [path.name for root in roots for path in root.iterdir() if path.is_dir() and path.name[0].isalpha()]
    named = re.compile(rf"`((?:{'|'.join(packages)})/(?:[\w./-]+\.(?:py|md|sh|json|txt)|(?:[\w-]+/)+))`")
    folders = ("docs", "containers", "cosmos_batch", "lambdas", "infra", "scripts", "benchmarks", "tests")
    texts = [path for folder in folders for kind in ("md", "py") for path in (ROOT / folder).rglob(f"*.{kind}")]
    found = {(name, path) for path in (ROOT / "README.md", *texts) for name in named.findall(path.read_text("utf-8"))}
    assert len(found) > 50
    assert not [one for one in found if not any((root / one[0]).exists() for root in roots)]
