"""`docs/deploy.md` says what the app does and what it costs."""

import json
import re
import shlex
from pathlib import Path

import pytest

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES, PRICES_AS_OF
from cosmos_batch.catalogue.pipelines import PIPELINES
from cosmos_batch.contract.config import Config
from cosmos_batch.planning.configuration import parse_config
from cosmos_batch.planning.deployment import enabled_pipelines
from tests.support.command_line import parse

ROOT = Path(__file__).resolve().parent.parent
GUARDRAILS = {"nvidia/Cosmos-Guardrail1", "nvidia/Cosmos-1.0-Guardrail"}  # of the generators
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")


def test_the_smallest_configuration_loads() -> None:
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert [one.pipeline.id for one in enabled_pipelines(parse_config(block))] == ["cosmos-reason2-2b"]


@pytest.mark.parametrize("repository", sorted({one.model for one in PIPELINES} | GUARDRAILS))
def test_every_licence_is_named(repository: str) -> None:
    assert f"[{repository}](https://huggingface.co/{repository})" in PAGE


def test_every_cosmos_batch_command_on_the_page_exists() -> None:
    commands = re.findall(r"^(?:\w+=\S+ )?cosmos-batch (.+)$", PAGE, re.MULTILINE)
    assert "models put nvidia/Cosmos-Reason2-2B" in commands
    for command in commands:
        parse(shlex.split(command))


def test_hourly_prices_are_those_of_the_price_table() -> None:
    assert PRICES_AS_OF in PAGE
    rows = re.findall(r"^\| (\w+\.\w+), .* \| ([\d.]+) an hour \|$", PAGE, re.MULTILINE)
    assert len(rows) == 3
    assert {name: float(price) for name, price in rows} == {
        name: round(INSTANCE_TYPES[name].dollars_per_hour, 2) for name, _ in rows
    }
    assert f"{INSTANCE_TYPES['g6e.12xlarge'].dollars_per_month:,.0f} a month" in PAGE


def test_an_isolated_clip_costs_what_the_page_says() -> None:
    for name in ("g6e.12xlarge", "g6e.2xlarge"):
        dollars = INSTANCE_TYPES[name].dollars_per_hour / 4
        assert re.search(rf"\${dollars:.2f} on a {re.escape(name)}", PAGE)
    assert f"p5.48xlarge at ${INSTANCE_TYPES['p5.48xlarge'].dollars_per_hour:.2f} an hour" in PAGE


def test_the_instance_types_for_many_jobs_at_a_time_can_be_configured() -> None:
    (types,) = re.findall(r"at a time, 2B or 8B \| `(\[.+?\])`", PAGE)
    for key in ("reason2B", "reason8B"):
        entry = f'{{"enabled": true, "instanceTypes": {types}}}'
        block = f'{{"enabled": true, "modelsReason": {{"{key}": {entry}}}}}'
        (one,) = enabled_pipelines(parse_config(f'{{"app": {{"pipelines": {{"useNvidiaCosmos": {block}}}}}}}'))
        assert one.instance_types == json.loads(types)


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)", PAGE) + re.findall(r"`(docs/[\w.]+)`", PAGE))
def test_targets_of_links_exist(target: str) -> None:
    if not target.startswith("https://"):
        assert (ROOT / target).exists() or (ROOT / "docs" / target).exists()


@pytest.mark.parametrize(
    "field", re.findall(r"`(?:app\.cosmosBatch\.)?((?:network|storage|worker|operations)\.\w+)`", PAGE)
)
def test_each_configuration_field_on_the_page_exists(field: str) -> None:
    block, name = field.split(".")
    settings = type(getattr(Config().own, block))
    assert name in {one.alias for one in settings.model_fields.values()}
