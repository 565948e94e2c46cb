"""What an engine cannot do is refused with the engines that can."""

from typing import Any

import pytest

from cosmos_batch.catalogue.generation import DOMAINS, MODES, Mode
from cosmos_batch.catalogue.generator_engines import GENERATOR_ABILITIES
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.images import IMAGE_OF_ENGINE
from cosmos_batch.planning.generation.abilities import engines_for, refuse_unable_engine
from cosmos_batch.planning.generation.aliases import read_domain
from tests.planning.generation.test_settling import OF_MODE
from tests.support.generations import AV, EDGE, refusal, settled

ALL = ["vllm-omni", "cosmos-framework", "diffusers", "phyai"]
GUARDED = ALL[:3]
NOT_FRAMEWORK = ["vllm-omni", "diffusers"]


def test_every_engine_of_ours_has_an_image() -> None:
    assert list(GENERATOR_ABILITIES) == ALL and set(GENERATOR_ABILITIES) <= set(IMAGE_OF_ENGINE)


@pytest.mark.parametrize("mode", MODES)
def test_three_engines_do_every_mode_and_phyai_only_without_guardrails(mode: Mode) -> None:
    said, medium = OF_MODE[mode]
    assert engines_for(settled(said, medium=medium)) == (NOT_FRAMEWORK if mode == "transfer" else GUARDED)
    unguarded = engines_for(settled(said, medium=medium, guardrails=False))
    assert unguarded == (GUARDED if mode in ("t2i", "transfer") else ALL)


@pytest.mark.parametrize(
    ("engine", "said", "medium", "told", "can"),
    [
        ("cosmos-framework", {"guidance_scale": 8}, None, "guidanceScale of at most 7, not 8", NOT_FRAMEWORK),
        ("cosmos-framework", {"fps": 29.97}, None, "whole number as fps, not 29.97", NOT_FRAMEWORK),
        ("cosmos-framework", {"size": "640x480"}, None, "sizes of NVIDIA's table, not 640x480", NOT_FRAMEWORK),
        ("vllm-omni", {**EDGE, "size": "640x480"}, None, "sizes of NVIDIA's table", ["diffusers"]),
        ("diffusers", {**EDGE, "depth": {"path": "d.mp4", "weight": 2.0}, "guardrails": False}, None, "the same weight",
         GUARDED[:2]),
        ("phyai", {}, None, "has no guardrails", GUARDED),
        ("phyai", {"guardrails": False, "guidance_scale": 0.5}, None, "guidanceScale of at least 1, not 0.5",
         GUARDED[1:]),
        ("vllm-omni", {"guidance_scale": 0.5}, None, "guidanceScale of at least 1, not 0.5", GUARDED[1:]),
        ("vllm-omni", {"fps": 0.5}, None, "fps of at least 1, not 0.5", ["diffusers"]),
        ("phyai", EDGE, None, "does not do transfer", NOT_FRAMEWORK),
        ("cosmos-framework", EDGE, None, "no guardrails for transfer", NOT_FRAMEWORK),
        ("phyai", {"guardrails": False, "sound": True}, "video", "no sound with v2v", GUARDED),
        ("phyai", {"guardrails": False, "flow_shift": 5}, None, "flowShift of 10, not 5", GUARDED),
        ("cosmos-framework", {"mode": "policy", "domain_name": "hand_pose"}, "image", "no actions of hand_pose",
         NOT_FRAMEWORK),
        ("diffusers", {"mode": "policy", "domain_name": "robotwin"}, "image", "does not have the domain robotwin",
         GUARDED[:2]),
        ("diffusers", {"mode": "policy", "domain_name": "libero", "raw_action_dim": 7}, "image",
         "does not have the domain libero", GUARDED[:1]),
    ],
)  # fmt: skip
def test_a_limit_of_an_engine(engine: str, said: dict[str, Any], medium: Any, told: str, can: list[str]) -> None:
    asked = settled(said, medium=medium)
    assert engines_for(asked) == can
    with pytest.raises(Failure, match=told) as raised:
        refuse_unable_engine(engine, asked)
    assert refusal(said, medium=medium, engine=engine) == raised.value.error
    assert all(GENERATOR_ABILITIES[name].title in raised.value.error.remedy for name in can)


@pytest.mark.parametrize(
    ("engine", "said", "medium", "way_out"),
    [
        ("phyai", {"guardrails": False, "sound": True}, "video", "or leave sound out."),
        ("phyai", {}, None, "or set guardrails to false."),
        ("phyai", EDGE, None, "or use one of its modes: t2v, i2v,"),
        ("cosmos-framework", {"guidance_scale": 8}, None, "or set guidanceScale to 7."),
        ("cosmos-framework", {"fps": 29.97}, None, "or set fps to 30."),
        ("cosmos-framework", {"size": "640x480"}, None, "or set resolution and aspectRatio instead."),
    ],
)
def test_the_remedy_says_what_to_leave_or_set(engine: str, said: dict[str, Any], medium: Any, way_out: str) -> None:
    assert way_out in refusal(said, medium=medium, engine=engine).remedy


def test_what_no_engine_can_do_says_so() -> None:
    asked = settled({**EDGE, "depth": {"path": "d.mp4", "weight": 2.0}, "size": "640x480"})
    with pytest.raises(Failure, match="No other engine can") as raised:
        refuse_unable_engine("vllm-omni", asked)
    assert engines_for(asked) == [] and raised.value.error.remedy


def test_an_engine_that_can_and_one_by_its_class() -> None:
    refuse_unable_engine("vllm-omni", settled(AV, medium="image"))
    refuse_unable_engine("my.module:Engine", settled())


def test_domains_that_an_engine_calls_otherwise_are_ours() -> None:
    for engine in GENERATOR_ABILITIES.values():
        assert all(ours in DOMAINS and read_domain(theirs) == ours for ours, theirs in engine.domain_names.items())
