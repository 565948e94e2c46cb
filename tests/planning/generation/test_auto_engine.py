"""`auto` is the engine that was measured to be the fastest, wherever it can do all that a pipeline may be asked for."""

from dataclasses import replace
from typing import Any

import pytest

from cosmos_batch.catalogue.engines import DEFAULT_GENERATOR, GENERATOR_ABILITIES
from cosmos_batch.catalogue.hardware import GPUS, INSTANCE_TYPES
from cosmos_batch.catalogue.pipelines import GENERATORS
from cosmos_batch.planning.generation.auto_engine import auto_engine
from cosmos_batch.planning.generation.memory import Workload

PIPELINE = {pipeline.id: pipeline for pipeline in GENERATORS}
NANO = PIPELINE["cosmos3-nano"]
FOUR_STEPS = "nvidia/Cosmos3-Super-Text2Image-4Step"


def engine_on(*types: str, pipeline: str = "cosmos3-nano", model: str = "m/m", guardrails: bool = True) -> str:
    row = PIPELINE[pipeline]
    return auto_engine(row, model, types, Workload.largest(row.modes, "720p", guardrails))


@pytest.mark.parametrize("name", INSTANCE_TYPES)
def test_nano_is_on_diffusers_where_that_was_measured_to_be_faster(name: str) -> None:
    measured = INSTANCE_TYPES[name].gpu in ("H100", "H200")
    assert engine_on(name) == ("diffusers" if measured else "vllm-omni")


def test_gpus_on_which_an_engine_is_the_fastest_are_known_and_belong_to_no_other_engine() -> None:
    gpus = [gpu for abilities in GENERATOR_ABILITIES.values() for gpu in abilities.fastest_on]
    assert set(gpus) <= set(GPUS) and len(set(gpus)) == len(gpus)
    assert GENERATOR_ABILITIES[DEFAULT_GENERATOR].fastest_on == ()


@pytest.mark.parametrize(
    ("lacking", "kept"),
    [
        ({"fastest_on": ("H200",)}, {}),
        ({"modes": ("t2v",)}, {}),
        ({"guardrail_models": ()}, {"guardrails": False}),
        ({"distilled": False}, {"model": "nvidia/Cosmos3-Nano"}),
        ({"memory_peaks": ((0.0, 50.0), (200.0, 50.0))}, {"pipeline": "cosmos3-edge"}),
    ],
)
def test_an_engine_that_cannot_do_all_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, lacking: dict[str, Any], kept: dict[str, Any]
) -> None:
    """`kept` is what the engine can still do without the ability; nothing if all of Nano's jobs are concerned."""
    assert engine_on("p5.4xlarge", model=FOUR_STEPS) == "diffusers"
    monkeypatch.setitem(GENERATOR_ABILITIES, "diffusers", replace(GENERATOR_ABILITIES["diffusers"], **lacking))
    assert engine_on("p5.4xlarge", model=FOUR_STEPS) == "vllm-omni"
    if kept:
        assert engine_on("p5.4xlarge", **{"model": FOUR_STEPS, **kept}) == "diffusers"


def test_a_server_that_only_a_user_can_run_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GENERATOR_ABILITIES, "nim", replace(GENERATOR_ABILITIES["nim"], fastest_on=("L40S",)))
    assert engine_on("g6e.12xlarge") == "vllm-omni"


def test_a_distilled_model_whose_steps_are_unknown_is_left_to_the_default() -> None:
    assert engine_on("p5.4xlarge", model="me/Cosmos3-Nano-Distilled") == "vllm-omni"
