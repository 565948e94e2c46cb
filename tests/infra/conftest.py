"""Fixtures: one synthesis for all tests of the templates, because synthesis takes long."""

import json
from pathlib import Path

import pytest

from cosmos_batch.planning.configuration import load_config
from infra.synth import synthesize
from tests.infra.assembly import SEED, Assembly


@pytest.fixture(scope="session")
def config_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the seed's configuration, with both pipelines enabled and with a token."""
    path = tmp_path_factory.mktemp("config") / "config.json"
    path.write_text(json.dumps(SEED), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def assembly(config_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """Provide the synthesized app of that configuration."""
    return Assembly(synthesize(load_config(config_file), tmp_path_factory.mktemp("cdk") / "cdk.out", config_file))
