"""A request settles to a generation with NVIDIA's values for what is absent, or is refused with a remedy."""

import json
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from cosmos_batch.catalogue.generation import MODES, Mode
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.parameters import NAMES, GenerationParameters
from cosmos_batch.planning.generation.aliases import read_generation_parameters, read_mode
from cosmos_batch.planning.generation.prompts import nvidia_negative_prompt, settle_sequence_length
from cosmos_batch.planning.generation.settling import draw_seed
from tests.support.generations import AV, EDGE, REQUEST_OF_MODE, Failure, refusal, settled


def parsing_error(parameters: dict[str, Any]) -> str:
    """Return the message for parameters that cannot be read."""
    with pytest.raises(Failure) as raised:
        read_generation_parameters(parameters)
    return raised.value.error.message


@pytest.mark.parametrize("mode", get_args(Mode))
def test_every_mode_has_nvidias_settings(mode: Mode) -> None:
    parameters, medium = REQUEST_OF_MODE[mode]
    generation = settled(parameters, medium=medium)
    expected = {"t2i": (50, 7.0, 3.0), "transfer": (35, 3.0, 10.0)}.get(mode, (35, 6.0, 10.0))
    expected = (30, 1.0, 10.0) if MODES[mode].action else expected
    assert generation.mode == mode
    assert (generation.steps, generation.guidance_scale, generation.flow_shift) == expected
    assert (
        generation.guided == (not MODES[mode].action)
        and generation.guardrails
        and not generation.sound
        and not generation.notes
    )


def test_a_video_is_189_frames_of_720p_and_an_image_is_square() -> None:
    generation = settled()
    assert (generation.size, generation.num_frames, generation.fps) == ((1280, 720), 189, 24.0)
    assert (settled({"mode": "t2i"}).size, settled({"mode": "t2i"}).num_frames) == ((960, 960), 1)


def test_the_input_decides_the_mode_of_a_request_without_a_mode() -> None:
    assert [settled(medium=medium).mode for medium in (None, "image", "video")] == ["t2v", "i2v", "v2v"]  # type: ignore[arg-type]
    assert settled(pipeline="cosmos3-super-text2image").mode == "t2i"
    assert settled(pipeline="cosmos3-super-image2video", medium="image").mode == "i2v"


def test_transfer_is_refused_on_a_text2image_pipeline() -> None:
    error = refusal(EDGE, pipeline="cosmos3-super-text2image")
    assert "cosmos3-super-text2image does not do transfer" in error.message
    assert "cosmos3-nano" in error.remedy and "t2i" in error.remedy


def test_an_input_that_the_mode_does_not_start_from_is_refused() -> None:
    assert "starts from text alone" in refusal({"mode": "t2v"}, medium="image").message
    assert "mode v2v starts from a video" in refusal({"mode": "v2v"}, medium="image").message
    assert "there is none" in refusal({"mode": "i2v"}).message
    assert "there is none" in refusal(pipeline="cosmos3-super-image2video").message


@pytest.mark.parametrize(
    ("name", "mode"),
    [("text2video", "t2v"), ("Text-to-Image", "t2i"), ("image_to_video", "i2v"), ("wam", "policy"), ("V2V", "v2v")],
)
def test_modes_are_read_by_other_names_too(name: str, mode: Mode) -> None:
    assert read_mode(name) == mode


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"fps": 0}, "fps: 0: Input should be greater than 0"),
        ({"fps": float("nan")}, "fps: nan"),
        ({"steps": 0}, "steps: 0: Input should be greater than or equal to 1"),
        ({"num_inference_steps": 10_000}, "steps: 10000: Input should be less than or equal to 200"),
        ({"guidance_scale": -1}, "guidanceScale: -1: Input should be greater than or equal to 0"),
        ({"seed": 2**70}, f"seed: {2**70}: Input should be less than {2**32}"),
        ({"seed": -1}, "seed: -1"),
        ({"aspectRatio": "16:7"}, "aspectRatio: '16:7': Input should be '1:1', '4:3', '3:4', '16:9' or '9:16'"),
        ({"resolution": "1080p"}, "resolution: '1080p': Input should be '256p', '480p', '720p' or '768p'"),
        ({"mode": "t2x"}, "mode: 't2x'"),
        ({"strength": 1}, "strength: unknown field"),
        ({"controls": {"sketch": {}}}, "controls.sketch"),
        ({"controls": {"edge": {"weight": -1}}}, "controls.edge.weight: -1"),
        ({"view_point": 7}, "viewPoint: 7"),
        ({"max_sequence_length": 0}, "maxSequenceLength: 0"),
    ],
)
def test_an_invalid_value_is_reported_by_its_json_name(parameters: dict[str, Any], message: str) -> None:
    assert message in parsing_error(parameters)


def test_true_cfg_scale_is_refused_in_favour_of_guidance_scale() -> None:
    for name in ("true_cfg_scale", "trueCfgScale"):
        with pytest.raises(Failure, match=f"{name}: .*use guidanceScale"):
            read_generation_parameters({name: 4.0})


def test_a_parameter_set_twice_must_have_the_same_value() -> None:
    assert read_generation_parameters({"steps": 20, "num_steps": 20}).steps == 20
    with pytest.raises(Failure, match="steps: is set twice, to 20 and, by the name num_steps, to 30"):
        read_generation_parameters({"steps": 20, "num_steps": 30})


def test_values_are_read_from_text() -> None:
    parameters = read_generation_parameters(
        {
            "num_frames": "93", "guidance_scale": "4.5", "sound": "true", "negativePrompt": '{"style": "none"}',
            "controls": '{"depth": {"path": "d.mp4"}}', "action": "[[1, 2]]",
        }
    )  # fmt: skip
    assert (parameters.num_frames, parameters.guidance_scale, parameters.sound, parameters.negative_prompt) == (
        93,
        4.5,
        True,
        {"style": "none"},
    )
    assert (
        parameters.controls is not None
        and parameters.controls["depth"].path == "d.mp4"
        and parameters.action == [[1, 2]]
    )


def test_the_negative_prompt_is_always_sent() -> None:
    assert settled().negative_prompt == settled(medium="image").negative_prompt == nvidia_negative_prompt()
    assert json.loads(nvidia_negative_prompt())["subjects"] and len(nvidia_negative_prompt()) == 14_850
    assert settled({"mode": "t2i"}).negative_prompt == settled(AV, medium="image").negative_prompt == ""
    assert settled({"negative_prompt": ""}).negative_prompt == ""
    assert settled({"negative_prompt": {"a": "é"}}).negative_prompt == '{"a": "\\u00e9"}'


def test_a_prompt_of_100_kb_is_refused() -> None:
    assert refusal(prompt="a" * 100_000).message == "prompt: 100,000 bytes are too many."
    assert refusal({"negative_prompt": "a" * 100_000}).message.startswith("negativePrompt: ")
    assert refusal(prompt={"a": "é" * 20_000}).message.startswith("prompt: ")


@pytest.mark.parametrize("prompt", [None, "", " \n"])
def test_a_missing_or_blank_prompt_is_refused(prompt: str | None) -> None:
    assert refusal(prompt=prompt).message == "prompt: is missing."


def test_a_prompt_that_is_neither_text_nor_reasonable_json_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(2000):
        deep = {"a": deep}
    assert refusal(prompt=deep).message == "prompt: is no prompt."
    assert "surrogate" in refusal(prompt="a \ud83d").message
    assert refusal(prompt=["a"]).message == "prompt: is no prompt."  # type: ignore[arg-type]


def test_templates_are_explicit_and_off_for_structured_prompts() -> None:
    structured = settled(prompt={"duration": "7s", "fps": 24})
    assert (structured.use_resolution_template, structured.use_duration_template) == (False, False)
    assert json.loads(structured.prompt) == {"duration": "7s", "fps": 24}
    text = settled()
    assert (text.use_resolution_template, text.use_duration_template) == (True, True)
    assert settled({"mode": "t2i"}).use_duration_template is False
    policy = settled({"mode": "policy", "domain_name": "av", "use_duration_template": False}, medium="image")
    assert not policy.use_resolution_template, "the caption of an action contains the size"
    assert "has no meaning in mode t2i" in refusal({"mode": "t2i", "use_duration_template": True}).message
    parameters = {"mode": "policy", "domain_name": "av", "use_resolution_template": True}
    assert "useResolutionTemplate: has no meaning in mode policy" in refusal(parameters, medium="image").message
    assert settled({"use_resolution_template": False}).use_resolution_template is False
    assert settled(prompt='{"a": 1').use_duration_template is True


def test_upsampling_is_refused_without_a_model_or_for_inputs_that_the_model_could_not_see() -> None:
    assert "promptUpsampling" in refusal({"upsample_prompt": True}, upsamples=False).remedy
    assert "t2i, t2v, i2v" in refusal({"upsample_prompt": True}, medium="video").message
    assert not settled({"upsample_prompt": True}).use_resolution_template  # the upsampled JSON contains the size


def test_a_structured_prompt_is_not_upsampled() -> None:
    assert settled({"upsample_prompt": True}).upsample_prompt and not settled().upsample_prompt
    assert not settled({"upsample_prompt": True}, prompt={"fps": 24}).upsample_prompt


def test_a_prompt_longer_than_the_sequence_is_refused_and_never_cut() -> None:
    assert settle_sequence_length(None, 300, 10) == 512
    assert settle_sequence_length(None, 300, 3400) == 3400
    assert settle_sequence_length(4096, 1500, 3400) == 4096
    with pytest.raises(Failure, match=r"prompt has 1,500 tokens, more than maxSequenceLength \(512\): it would be cut"):
        settle_sequence_length(512, 1500, 10)
    with pytest.raises(Failure, match="negativePrompt has 3,400"):
        settle_sequence_length(512, 10, 3400)
    with pytest.raises(Failure, match="16,384"):
        settle_sequence_length(None, 20_000, 10)


def test_images_have_vllm_omnis_guidance_interval() -> None:
    assert settled({"mode": "t2i"}).guidance_interval == (400, 1000) and settled().guidance_interval is None


def test_the_total_steps_of_a_transfer_count_all_chunks() -> None:
    parameters = {"mode": "transfer", "depth": "depth.mp4", "steps": 10, "num_frames": 201}
    assert settled({**parameters, "frames_per_chunk": 101}).total_steps == 20  # chunks of 101 and 100 new frames
    assert settled({**parameters, "frames_per_chunk": 93}).total_steps == 30
    assert settled({"steps": 10}).total_steps == 10


def test_a_seed_depends_on_the_job_only() -> None:
    assert settled().seed == settled().seed == draw_seed("job-1") != settled(job_id="job-2").seed
    assert settled({"seed": 0}).seed == 0
    assert all(0 <= draw_seed(str(index)) < 2**32 for index in range(100))


def test_sound_is_refused_in_modes_without_it() -> None:
    for mode, (parameters, medium) in REQUEST_OF_MODE.items():
        if MODES[mode].sound:
            assert settled({**parameters, "sound": True}, medium=medium).sound
        else:
            error = refusal({**parameters, "sound": True}, medium=medium)
            assert error.message == f"sound: mode {mode} has none." and "t2v, i2v, v2v" in error.remedy
            assert not settled({**parameters, "sound": False}, medium=medium).sound


def test_a_request_switches_guardrails_only_as_the_pipeline_allows() -> None:
    assert settled().guardrails and not settled(guardrails=False).guardrails
    assert not settled({"guardrails": False}).guardrails
    assert settled({"guardrails": True}, guardrails_required=True).guardrails
    assert settled(guardrails_required=True).guardrails
    error = refusal({"guardrails": False}, guardrails_required=True)
    assert "no request can switch them off" in error.message and "nano16B" in error.remedy
    error = refusal({"guardrails": True}, guardrails=False)
    assert "without any" in error.message and "nano16B" in error.remedy


@pytest.mark.parametrize("mode", [{}, {"mode": "v2v"}, {"model_mode": "video2video"}])
def test_controls_make_it_a_transfer_as_in_cosmos_frameworks_samples(mode: dict[str, Any]) -> None:
    assert settled({**mode, "edge": True}, "video").mode == "transfer"


def test_parameters_of_another_mode_are_refused() -> None:
    assert "conditionFrames: has no meaning in mode t2v" in refusal({"condition_frames": [0]}).message
    assert "controls: has no meaning in mode i2v" in refusal({"mode": "i2v", "edge": True}, medium="image").message
    assert "domainName" in refusal({"domain_name": "av"}).message
    assert "numFrames: is 9, and an image has one frame" in refusal({"mode": "t2i", "num_frames": 9}).message


def test_v2v_keeps_some_of_the_latent_frames_and_never_all() -> None:
    generation = settled(medium="video")
    assert generation.conditioning is not None and (generation.conditioning.frames, generation.conditioning.keep) == (
        [0, 1],
        "first",
    )
    for frames in ([2], [0, 0], [0, 1]):
        assert "conditionFrames" in refusal({"num_frames": 5, "condition_frames": frames}, medium="video").message


def test_a_frame_rate_outside_of_the_training_range_adds_a_note() -> None:
    assert settled({"fps": 60}).notes == ["The model was trained on 10 to 30 frames per second, not on 60."]


def test_a_video_of_fewer_frames_than_nvidia_recommends_adds_a_note() -> None:
    """Cosmos Framework logs a warning for such a video. It does not for an image."""
    note = "The video has {} frames. NVIDIA recommends at least 24, because the quality may be lower with fewer."
    for frames in (5, 9, 21):
        assert settled({"num_frames": frames}).notes == [note.format(frames)]
    rounded = settled({"num_frames": 18})
    assert rounded.notes == ["18 frames became 21: the model generates 4k+1 frames.", note.format(21)]
    for parameters in ({"num_frames": 25}, {}, {"mode": "t2i"}):
        assert settled(parameters).notes == []


def test_an_inconsistent_generation_fails_validation() -> None:
    good = settled(medium="video").model_dump(mode="json")
    for change in (
        {"numFrames": 190}, {"mode": "policy"}, {"conditioning": None}, {"width": 61, "height": 64}, {"fps": None},
        {"resolution": None}, {"steps": 0}, {"mode": "t2v"},
    ):  # fmt: skip
        with pytest.raises(ValidationError):
            Generation.model_validate_json(json.dumps({**good, **change}))


def test_every_parameter_is_described() -> None:
    assert all(field.description for field in GenerationParameters.model_fields.values())
    assert NAMES["numFrames"] == "num_frames"


def test_edge_has_settings_of_its_own() -> None:
    video = settled(medium="image", pipeline="cosmos3-edge")
    assert (video.mode, video.resolution, video.num_frames) == ("i2v", "480p", 121)
    assert (video.steps, video.guidance_scale, video.flow_shift, video.use_system_prompt) == (20, 6.0, 12.0, False)
    text = settled(pipeline="cosmos3-edge")
    assert (text.size, text.num_frames, text.steps) == ((832, 480), 189, 35)
    assert (text.guidance_scale, text.flow_shift) == (5.0, 3.0)
    image = settled({"mode": "t2i"}, pipeline="cosmos3-edge")
    assert (image.size, image.steps, image.flow_shift, image.use_system_prompt) == ((640, 640), 50, 3.0, False)
    assert settled().use_system_prompt


@pytest.mark.parametrize(
    ("parameters", "medium", "message"),
    [
        ({"sound": True}, None, "sound: cosmos3-edge generates none"),
        ({"mode": "v2v"}, "video", "mode: cosmos3-edge does not do v2v"),
        (EDGE, None, "mode: cosmos3-edge does not do transfer"),
    ],
)
def test_edge_makes_no_sound_continues_no_videos_and_follows_no_controls(
    parameters: dict[str, Any], medium: Any, message: str
) -> None:
    assert message in refusal(parameters, medium=medium, pipeline="cosmos3-edge").message
