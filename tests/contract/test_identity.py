"""The identity of a deployment changes with each setting that answers depend on, and with no other."""

import json
from typing import Any

import pytest

from cosmos_batch.contract.identity import Identity
from cosmos_batch.planning.configuration import parse_config
from cosmos_batch.planning.deployment import enabled_pipelines


def identity(omni: dict[str, Any] | None = None, reason: dict[str, Any] | None = None, **own: Any) -> Identity:
    """Return the identity of the only enabled pipeline: a generator if `omni` is given, else a reasoner."""
    key, block = ("useNvidiaCosmos", "modelsReason") if omni is None else ("useNvidiaCosmos3", "modelsOmni")
    name, entry = ("reason2B", reason or {}) if omni is None else ("nano16B", omni)
    pipelines = {key: {"enabled": True, block: {name: {"enabled": True, **entry}}}}
    text = json.dumps({"app": {"pipelines": pipelines, "cosmosBatch": own}})
    (enabled,) = enabled_pipelines(parse_config(text))
    return enabled.identity


SERVER = {"url": "https://nim.example/v1"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"model": "nvidia/Another"}),
        ({"model": "/models/a"}, {"model": "/models/b"}),
        ({}, {"engine": "transformers"}),
        ({}, {"engine": "endpoint", "endpoint": SERVER}),
        ({"engine": "endpoint", "endpoint": SERVER}, {"engine": "endpoint", "endpoint": {**SERVER, "model": "b"}}),
    ],
)
def test_another_model_or_engine_is_another_identity(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert identity(reason=before).configuration != identity(reason=after).configuration


def test_the_interface_of_an_endpoint_is_part_of_an_identity_unless_it_is_the_default() -> None:
    entry = {"engine": "endpoint", "guardrails": False}
    plain, openai, nim = (
        identity(omni={**entry, "endpoint": {**SERVER, **api}}) for api in ({}, {"api": "openai"}, {"api": "nim"})
    )
    assert plain == openai and plain.configuration != nim.configuration


@pytest.mark.parametrize("after", [{"guardrails": False}, {"maxResolution": "480p"}, {"engine": "diffusers"}])
def test_settings_of_a_generator_are_part_of_its_identity(after: dict[str, Any]) -> None:
    assert identity(omni={}).configuration != identity(omni=after).configuration


def test_times_types_and_keys_are_not_part_of_an_identity() -> None:
    plain = identity(reason={}, worker={"idleSeconds": 7}, scaling={"targetDrainSeconds": 7})
    assert plain == identity(reason={"maxVCpus": 96, "useSpot": True, "priority": 3})
    asked = {"engine": "endpoint", "endpoint": {**SERVER, "concurrency": 3, "timeoutSeconds": 9}}
    assert identity(reason=asked) == identity(reason={"engine": "endpoint", "endpoint": SERVER})


def test_an_endpoint_is_identified_by_its_model_or_its_url() -> None:
    named = {"engine": "endpoint", "endpoint": {**SERVER, "model": "nvidia/cosmos"}}
    assert identity(reason=named).model == "nvidia/cosmos"
    assert identity(reason={"engine": "endpoint", "endpoint": SERVER}).model == "https://nim.example/v1"
