"""A generation that the engine of its pipeline cannot do is refused, and the message names engines that can."""

from typing import Any

import pytest

from cosmos_batch.catalogue.engines import ENGINES, GENERATOR_ABILITIES
from cosmos_batch.catalogue.generation import DOMAINS, MODES, SIZES, Mode
from cosmos_batch.contract.error import Failure
from cosmos_batch.planning.generation.abilities import engines_for, refuse_unable_engine
from cosmos_batch.planning.generation.aliases import read_domain
from tests.support.generations import AV, EDGE, REQUEST_OF_MODE, refusal, settled

ALL = ["vllm-omni", "cosmos-framework", "diffusers", "phyai"]
GUARDED = ALL[:3]
NOT_FRAMEWORK = ["vllm-omni", "diffusers"]


def test_every_engine_has_a_row_and_those_of_workers_come_first() -> None:
    assert list(GENERATOR_ABILITIES) == [*ALL, "nim"] and set(GENERATOR_ABILITIES) <= set(ENGINES)


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_names_the_engines_that_can_do_it(mode: Mode) -> None:
    parameters, medium = REQUEST_OF_MODE[mode]
    assert engines_for(settled(parameters, medium=medium)) == (NOT_FRAMEWORK if mode == "transfer" else GUARDED)
    unguarded = engines_for(settled(parameters, medium=medium, guardrails=False))
    assert unguarded == (GUARDED if mode in ("t2i", "transfer") else ALL)


@pytest.mark.parametrize(
    ("engine", "parameters", "medium", "message", "able_engines"),
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
        ("nim", {"sound": True}, None, "no sound with t2v", GUARDED),
        ("nim", {"guidance_scale": 0.5}, None, "guidanceScale of at least 1, not 0.5", GUARDED[1:]),
        ("nim", {"guidance_scale": 7.5}, None, "guidanceScale of at most 7, not 7.5", NOT_FRAMEWORK),
        ("nim", {"fps": 0.5}, None, "fps of at least 1, not 0.5", ["diffusers"]),
        ("nim", {"steps": 101}, None, "at most 100 steps, not 101", GUARDED),
        ("nim", {"num_frames": 21}, None, "at least 25 frames, not 21", GUARDED),
        ("nim", {"size": "640x480"}, None, "sizes of NVIDIA's table, not 640x480", NOT_FRAMEWORK),
        ("nim", {"mode": "t2i", "resolution": "768p"}, None, "has no size of 1024x1024", GUARDED),
        ("nim", {"mode": "policy", "domain_name": "pusht"}, "image", "does not have the domain pusht", GUARDED),
    ],
)  # fmt: skip
def test_a_generation_beyond_an_engines_limit_is_refused(
    engine: str, parameters: dict[str, Any], medium: Any, message: str, able_engines: list[str]
) -> None:
    generation = settled(parameters, medium=medium)
    assert engines_for(generation) == able_engines
    with pytest.raises(Failure, match=message) as raised:
        refuse_unable_engine(engine, generation)
    assert refusal(parameters, medium=medium, engine=engine) == raised.value.error
    assert all(ENGINES[name].title in raised.value.error.remedy for name in able_engines)


@pytest.mark.parametrize(
    ("engine", "parameters", "medium", "remedy"),
    [
        ("phyai", {"guardrails": False, "sound": True}, "video", "or leave sound out."),
        ("phyai", {}, None, "or set guardrails to false."),
        ("phyai", EDGE, None, "or use one of its modes: t2v, i2v,"),
        ("cosmos-framework", {"guidance_scale": 8}, None, "or set guidanceScale to 7."),
        ("cosmos-framework", {"fps": 29.97}, None, "or set fps to 30."),
        ("cosmos-framework", {"size": "640x480"}, None, "or set resolution and aspectRatio instead."),
        ("nim", {"steps": 101}, None, "or set steps to 100."),
        ("nim", {"num_frames": 21}, None, "or set numFrames to 25 or more."),
        ("nim", {"mode": "t2i", "resolution": "768p"}, None, "or set resolution to 256p or 480p or 720p."),
    ],
)
def test_the_remedy_names_the_parameter_to_change(
    engine: str, parameters: dict[str, Any], medium: Any, remedy: str
) -> None:
    assert remedy in refusal(parameters, medium=medium, engine=engine).remedy


def test_the_remedy_says_if_no_engine_can_do_it() -> None:
    generation = settled({**EDGE, "depth": {"path": "d.mp4", "weight": 2.0}, "size": "640x480"})
    with pytest.raises(Failure, match="No other engine can") as raised:
        refuse_unable_engine("vllm-omni", generation)
    assert engines_for(generation) == [] and raised.value.error.remedy


def test_a_rate_of_control_videos_above_a_limit_is_refused_when_it_is_known() -> None:
    fast = settled(EDGE).model_copy(update={"num_frames": 93, "fps": 120.0})
    with pytest.raises(Failure, match=r"NIM, .* requires an fps of at most 60, not 120") as raised:
        refuse_unable_engine("nim", fast)
    assert "or set fps to 60 or less." in raised.value.error.remedy
    refuse_unable_engine("nim", fast.model_copy(update={"fps": 60.0}))


def test_a_transfer_of_more_frames_than_a_nim_makes_of_its_size_is_refused() -> None:
    long = settled(EDGE).model_copy(update={"width": 1280, "height": 720, "num_frames": 201, "fps": 30.0})
    with pytest.raises(Failure, match="makes no more than 197 frames of 1280x720, not 201") as raised:
        refuse_unable_engine("nim", long)
    assert "or set numFrames to 197 or less." in raised.value.error.remedy
    refuse_unable_engine("nim", long.model_copy(update={"num_frames": 197}))
    refuse_unable_engine("vllm-omni", long)


def test_a_nim_makes_all_sizes_of_its_tiers_in_all_modes_and_short_videos_with_actions() -> None:
    for tier in GENERATOR_ABILITIES["nim"].tiers:
        for size in SIZES[tier].values():
            refuse_unable_engine("nim", settled({"size": str(size), "num_frames": 25, "fps": 1, "steps": 100}))
    for parameters, medium in REQUEST_OF_MODE.values():
        refuse_unable_engine("nim", settled(parameters, medium=medium))
    chunk = {"mode": "inverse_dynamics", "domain_name": "umi", "action_chunk_size": 16}
    refuse_unable_engine("nim", settled(chunk, medium="video"))


def test_no_remedy_names_a_server_that_only_a_user_can_run() -> None:
    assert "nim" not in engines_for(settled())
    assert refusal({}, engine="phyai").remedy.startswith("Use a pipeline on vLLM-Omni or Cosmos Framework or Diffusers")


def test_able_engines_and_custom_engines_are_not_refused() -> None:
    refuse_unable_engine("vllm-omni", settled(AV, medium="image"))
    refuse_unable_engine("my.module:Engine", settled())


def test_engines_names_of_domains_are_aliases_of_ours() -> None:
    for engine in GENERATOR_ABILITIES.values():
        assert all(
            our_name in DOMAINS and read_domain(engine_name) == our_name
            for our_name, engine_name in engine.domain_names.items()
        )
