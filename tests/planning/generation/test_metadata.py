"""Metadata and a workflow's configuration are read by their keys, and the first source of a key wins."""

from typing import Any

import pytest

from cosmos_batch.catalogue.pipelines import GENERATORS, pipeline_named
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.outputs import variant
from cosmos_batch.contract.generation.parameters import Control
from cosmos_batch.planning.generation.aliases import read_generation_parameters
from cosmos_batch.planning.generation.metadata import (
    KEYS,
    keys_of_configuration,
    keys_of_metadata,
    prompt_and_parameters,
    read_switch,
)
from cosmos_batch.planning.generation.settling import choose_pipeline

# The keys of VAMS's own Cosmos 3 pipeline.
VAMS = {
    "COSMOS3_PROMPT", "COSMOS3_NEGATIVE_PROMPT", "COSMOS3_SEED", "COSMOS3_GUIDANCE", "COSMOS3_NUM_FRAMES",
    "COSMOS3_TASK_MODE", "COSMOS3_CONTROL_TYPE", "COSMOS3_CONTROL_PATH", "COSMOS3_CONTROL_WEIGHT",
    "COSMOS3_CONTROL_GUIDANCE",
}  # fmt: skip


def configuration(**settings: Any) -> dict[str, Any]:
    nano = pipeline_named("cosmos3-nano")
    assert nano is not None
    return keys_of_configuration(settings, nano)


def test_every_key_of_vams_and_a_key_for_each_parameter_exists() -> None:
    assert VAMS < KEYS
    assert {"COSMOS3_GUIDANCE_SCALE", "COSMOS3_SOUND", "COSMOS3_DOMAIN_NAME", "COSMOS3_CONTROLS"} < KEYS


def test_keys_of_vams_are_read() -> None:
    prompt, values = prompt_and_parameters(
        keys_of_metadata(
            {
                "COSMOS3_PROMPT": "A robot.", "COSMOS3_SEED": "7", "COSMOS3_GUIDANCE": "4.5",
                "COSMOS3_NUM_FRAMES": "93", "COSMOS3_TASK_MODE": "text2video", "COSMOS3_NEGATIVE_PROMPT": "blur",
                "OTHER": "x",
            }
        )
    )  # fmt: skip
    parameters = read_generation_parameters(values)
    assert prompt == "A robot."
    assert (parameters.seed, parameters.guidance_scale, parameters.num_frames) == (7, 4.5, 93)
    assert (parameters.mode, parameters.negative_prompt) == ("t2v", "blur")


def test_a_files_keys_win_over_its_assets_and_both_over_the_configurations() -> None:
    file = keys_of_metadata({"cosmos3-prompt": "of the file", "COSMOS3_SEED": " "})
    asset = keys_of_metadata({"COSMOS3_PROMPT": "of the asset", "COSMOS3_SEED": "1", "COSMOS3_FPS": "12"})
    rest = configuration(prompt="of the workflow", seed=2, fps=30, numFrames=61, TASK_MODE="video2video", unknown=1)
    assert prompt_and_parameters(file, asset, rest) == (
        "of the file",
        {"seed": "1", "fps": "12", "numFrames": 61, "mode": "v2v"},
    )
    assert prompt_and_parameters(asset, rest)[0] == "of the asset"
    assert prompt_and_parameters({}, rest)[0] == "of the workflow"


def test_contradictory_names_in_the_same_source_are_refused() -> None:
    with pytest.raises(ValueError, match="steps: is set twice"):
        prompt_and_parameters(configuration(num_steps=20, steps=30))


def test_a_control_is_read_from_three_keys_and_sets_the_mode() -> None:
    keys = {"COSMOS3_CONTROL_TYPE": "Depth", "COSMOS3_CONTROL_PATH": "d.mp4", "COSMOS3_CONTROL_WEIGHT": "0.5"}
    parameters = read_generation_parameters(prompt_and_parameters(keys_of_metadata(keys))[1])
    assert parameters.mode == "transfer" and parameters.controls is not None
    assert parameters.controls["depth"] == Control(path="d.mp4", weight=0.5)
    assert read_generation_parameters(prompt_and_parameters({"COSMOS3_CONTROL_TYPE": "edge"})[1]).controls is not None
    with pytest.raises(ValueError, match="COSMOS3_CONTROL_TYPE: is missing"):
        prompt_and_parameters({"COSMOS3_CONTROL_PATH": "d.mp4"})


def test_several_controls_are_read_from_lists_separated_by_commas() -> None:
    keys = {
        "COSMOS3_CONTROL_TYPE": "edge, Depth,seg",
        "COSMOS3_CONTROL_PATH": ",s3://b/d.mp4",
        "COSMOS3_CONTROL_WEIGHT": "1, 0.5, 2",
    }
    assert read_generation_parameters(prompt_and_parameters(keys_of_metadata(keys))[1]).controls == {
        "edge": Control(weight=1),
        "depth": Control(path="s3://b/d.mp4", weight=0.5),
        "seg": Control(weight=2),
    }
    with pytest.raises(ValueError, match="COSMOS3_CONTROL_WEIGHT: has 2 values for 1"):
        prompt_and_parameters({"COSMOS3_CONTROL_TYPE": "edge", "COSMOS3_CONTROL_WEIGHT": "1,2"})


def test_a_configuration_from_vamss_own_template_is_read() -> None:
    """Keys of `cosmos3-nano-transfer.json` of VAMS 2.6 have no prefix, and fields that are not set are blank."""
    settings = configuration(
        MODEL_VARIANT="nano", TASK_MODE="transfer", DISABLE_GUARDRAILS=True, PROMPT="A robot.", NEGATIVE_PROMPT="",
        NUM_FRAMES=93, CONTROL_TYPE="edge,blur", CONTROL_WEIGHT="", CONTROL_GUIDANCE="2", SEED="3", GUIDANCE="4",
    )  # fmt: skip
    prompt, values = prompt_and_parameters(settings)
    parameters = read_generation_parameters(values)
    assert (prompt, parameters.mode) == ("A robot.", "transfer")
    assert (parameters.num_frames, parameters.seed, parameters.guidance_scale) == (93, 3, 4)
    assert parameters.controls is not None and list(parameters.controls) == ["edge", "blur"]
    assert (parameters.control_guidance, parameters.guardrails, parameters.negative_prompt) == (2, False, None)


def test_switches_and_prefixed_keys_of_a_configuration_are_read() -> None:
    settings = configuration(
        MODEL_VARIANT="Nano", DISABLE_GUARDRAILS="true", GENERATE_PREVIEW_GIF="false", PROMPT="A robot.",
        COSMOS3_SEED="5", num_inference_steps="20", INVALIDATE_COSMOS_MODELS="true",
    )  # fmt: skip
    prompt, values = prompt_and_parameters(settings)
    parameters = read_generation_parameters(values)
    assert prompt == "A robot." and (parameters.guardrails, parameters.preview) == (False, False)
    assert (parameters.seed, parameters.steps) == (5, 20)
    assert configuration(DISABLE_GUARDRAILS=False) == {"guardrails": True}
    assert configuration() == {} == configuration(DISABLE_GUARDRAILS="", prompt=" ")


def test_true_cfg_scale_in_a_configuration_is_refused_and_not_ignored() -> None:
    with pytest.raises(ValueError, match="use guidanceScale"):
        read_generation_parameters(prompt_and_parameters(configuration(true_cfg_scale=4))[1])


@pytest.mark.parametrize("name", ["nano", "NANO", "cosmos3-nano", "nvidia-cosmos3-nano"])
def test_the_pipelines_own_variant_is_accepted(name: str) -> None:
    configuration(MODEL_VARIANT=name)


def test_another_variant_and_an_unclear_switch_are_refused() -> None:
    with pytest.raises(Failure, match="MODEL_VARIANT is 'super', but cosmos3-nano runs nvidia/Cosmos3-Nano"):
        configuration(MODEL_VARIANT="super")
    with pytest.raises(Failure, match="DISABLE_GUARDRAILS is 'maybe'"):
        configuration(DISABLE_GUARDRAILS="maybe")
    assert read_switch({"INVALIDATE_COSMOS_MODELS": "True"}, "INVALIDATE_COSMOS_MODELS") is True


def test_variants_have_vamss_names() -> None:
    names = [variant(pipeline) for pipeline in GENERATORS]
    vamss_own = ["nano", "super", "super-text2image", "super-image2video"]
    assert names == ["edge", *vamss_own, "super-text2image-4step", "super-image2video-4step"]


def test_the_smallest_pipeline_with_the_mode_is_chosen() -> None:
    every = ["cosmos-reason2-2b", *(pipeline.id for pipeline in GENERATORS)]
    assert choose_pipeline(every, None, "image") == "cosmos3-edge"
    assert choose_pipeline(every, "transfer", None) == "cosmos3-nano"
    images = ["cosmos3-super-text2image", "cosmos3-super-image2video"]
    assert (choose_pipeline(images, None, None), choose_pipeline(images, None, "image")) == (images[0], images[1])
    assert choose_pipeline(images, None, "video") is None
    assert choose_pipeline(["cosmos-reason2-2b"], None, "image") is None
