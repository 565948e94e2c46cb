"""The requests that a NIM is sent in each mode, and the files that are made of its responses. The stand-in server
refuses every field that NVIDIA's documentation does not allow."""

import json
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.catalogue.generation import SIZES, VIDEO_RESOLUTIONS
from cosmos_batch.contract.generation.guardrails import NOT_VERIFIED, Checks
from cosmos_batch.engines.data_urls import SENT_AS_H264
from cosmos_batch.engines.generator.nim import job as nim_job
from cosmos_batch.engines.generator.nim import requests as nim_requests
from cosmos_batch.media import ImageInfo, probe
from tests.engines.generator.nim.conftest import IMAGE, VIDEO, Make
from tests.support.generator_jobs import PROMPT, check, refused
from tests.support.nim_server import NimServer, Sent

ROWS = [[0.5, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0]] * 4
ACTIONS = {"domain_name": "bridge", "resolution": "256p", "action_chunk_size": 4, "steps": 2, "seed": 5}
TRANSFER = {"mode": "transfer", "resolution": "256p", "aspect_ratio": "16:9", "steps": 2, "num_frames": 25}


def test_a_video_from_text_is_requested_with_every_parameter(make: Make, server: NimServer, tmp_path: Path) -> None:
    result = make({**VIDEO, "fps": 29.97})
    check(tmp_path / "out" / "output.mp4", result.generation)
    assert server.requests == [
        {
            "model_mode": "text2video",
            "prompt": PROMPT,
            "negative_prompt": "Blur.",
            "seed": 5,
            "fps": 29.97,
            "num_inference_steps": 2,
            "guidance_scale": 6.0,
            "flow_shift": 10.0,
            "resolution": "256_16_9",
            "num_frames": 25,
        }
    ]
    assert [file.role for file in result.files] == ["video"]
    assert result.timings.keys() == {"prepare", "generate", "write"}


@pytest.mark.parametrize("image_format", ["png", "jpeg"])
def test_an_image_is_requested_and_written_in_the_format_of_the_job(
    make: Make, server: NimServer, tmp_path: Path, image_format: str
) -> None:
    result = make({**IMAGE, "image_format": image_format, "seed": 2**32 - 1})
    (file,) = result.files
    assert file.role == "image" and file.name.endswith({"png": ".png", "jpeg": ".jpg"}[image_format])
    assert probe(tmp_path / "out" / file.name) == ImageInfo(256, 256)
    assert server.requests == [
        {
            "model_mode": "text2image",
            "prompt": PROMPT,
            "negative_prompt": "",
            "seed": 2**32 - 1,
            "fps": 24.0,
            "num_inference_steps": 2,
            "guidance_scale": 7.0,
            "flow_shift": 3.0,
            "resolution": "256_1_1",
            "num_frames": 1,
        }
    ]


def test_every_size_of_the_table_has_the_key_by_which_the_server_makes_it(make: Make, server: NimServer) -> None:
    for tier in VIDEO_RESOLUTIONS:
        for ratio, size in SIZES[tier].items():
            assert make({**IMAGE, "resolution": tier, "aspect_ratio": ratio}).generation.size == size
    assert len({sent["resolution"] for sent in server.requests}) == 15


def test_an_image_to_begin_with_is_sent_as_png_in_the_size_of_the_video(
    make: Make, server: NimServer, picture: Path, tmp_path: Path
) -> None:
    result = make({**VIDEO, "mode": "i2v", "aspect_ratio": "1:1"}, picture)
    check(tmp_path / "out" / "output.mp4", result.generation)
    assert server.requests[0]["model_mode"] == "image2video"
    assert server.media == [{"input_reference": Sent("PNG", 256, 256, 1, None)}]


def test_the_kept_frames_of_a_video_are_sent_as_h264(make: Make, server: NimServer, clip: Path, tmp_path: Path) -> None:
    kept = {"condition_frames": [0, 2], "condition_keep": "last", "aspect_ratio": "16:9"}
    result = make({**VIDEO, "mode": "v2v", **kept}, clip)
    check(tmp_path / "out" / "output.mp4", result.generation)
    (sent,) = server.requests
    assert sent["model_mode"] == "video2video" and sent["condition_frame_indexes_vision"] == [0, 2]
    assert sent["condition_video_keep"] == "first", "what is sent begins with the frames to keep"
    assert server.media == [{"input_reference": Sent("h264", 320, 192, 9, 24.0)}]


def test_several_controls_are_sent_in_one_request(make: Make, server: NimServer, clip: Path, tmp_path: Path) -> None:
    controls = {"edge": {}, "blur": {}, "depth": {"path": "s3://my-bucket/depth.mp4"}}
    result = make({**TRANSFER, "controls": controls, "control_guidance": 2.5}, clip, controls={"depth": clip})
    check(tmp_path / "out" / "output.mp4", result.generation)
    (sent,) = server.requests
    assert sent["model_mode"] == "video2video" and "input_reference" not in sent
    assert {name: value for name, value in sent["transfer"].items() if name not in controls} == {
        "control_guidance": 2.5,
        "num_video_frames_per_chunk": 25,
        "num_conditional_frames": 1,
        "num_first_chunk_conditional_frames": 0,
    }
    assert (sent["resolution"], sent["num_frames"]) == ("256_16_9", 25)
    (media,) = server.media
    assert list(media) == ["edge", "blur", "depth"] and {one.kind for one in media.values()} == {"h264"}
    assert {one.frames for one in media.values()} == {25}
    assert not any("control_weight" in sent["transfer"][name] for name in controls), "releases before 2.1.0 refuse it"


def test_weights_of_controls_are_sent_where_they_differ(make: Make, server: NimServer, clip: Path) -> None:
    make({**TRANSFER, "controls": {"edge": {"weight": 0.5}, "blur": {}}, "guardrails": False}, clip)
    transfer = server.requests[0]["transfer"]
    assert {name: transfer[name]["control_weight"] for name in ("edge", "blur")} == {"edge": 0.5, "blur": 1.0}


def test_actions_are_sent_with_an_image_and_a_video_is_made_of_them(
    make: Make, server: NimServer, clip: Path, tmp_path: Path
) -> None:
    result = make({"mode": "forward_dynamics", "action": ROWS, **ACTIONS}, clip)
    check(tmp_path / "out" / "output.mp4", result.generation)
    assert [file.role for file in result.files] == ["video"]
    (sent,) = server.requests
    assert sent.pop("input_reference").startswith("data:image/png;base64,")
    assert sent == {
        "model_mode": "forward_dynamics",
        "prompt": PROMPT,
        "seed": 5,
        "fps": 5.0,
        "num_inference_steps": 2,
        "guidance_scale": 1.0,
        "flow_shift": 10.0,
        "action_params": {
            "domain_name": "bridge_orig_lerobot",
            "action_chunk_size": 4,
            "raw_action_dim": 10,
            "action_space": "joint_pos",
            "image_size": "256",
            "action_fps": 5.0,
            "action": ROWS,
        },
    }


@pytest.mark.parametrize(("mode", "kind", "frames"), [("policy", "PNG", 1), ("inverse_dynamics", "h264", 5)])
def test_actions_are_predicted(
    make: Make, server: NimServer, clip: Path, tmp_path: Path, mode: str, kind: str, frames: int
) -> None:
    result = make({"mode": mode, **ACTIONS}, clip)
    check(tmp_path / "out" / "output.mp4", result.generation)
    assert [file.role for file in result.files] == ["video", "actions"]
    assert json.loads((tmp_path / "out" / "actions.json").read_text()) == [[0.25] * 10] * 4
    assert "action" not in server.requests[0]["action_params"]
    assert server.media[0]["input_reference"][::3] == (kind, frames)


@pytest.mark.parametrize(("variant", "mode"), [("super-t2i-4step", "t2i"), ("super-i2v-4step", "i2v")])
def test_a_model_of_four_steps_is_sent_no_parameter_of_its_sampling(
    make: Make, server: NimServer, picture: Path, variant: str, mode: str
) -> None:
    server.variant = variant
    size = {"resolution": "256p", **({"num_frames": 25} if mode == "i2v" else {})}
    result = make({"mode": mode, **size}, picture if mode == "i2v" else None, fixed_steps=4)
    sampling = {"num_inference_steps", "guidance_scale", "flow_shift", "negative_prompt"}
    assert not server.requests[0].keys() & sampling
    assert nim_job.FIXED_SAMPLING in result.notes and nim_job.UNCONFIRMED_SAMPLING not in result.notes


def test_without_guidance_no_negative_prompt_is_sent(make: Make, server: NimServer) -> None:
    make({**VIDEO, "guidance_scale": 1})
    assert "negative_prompt" not in server.requests[0]


def test_a_structured_prompt_is_sent_as_it_is(make: Make, server: NimServer) -> None:
    make(VIDEO, None, {"subjects": ["a cube"]})
    assert json.loads(server.requests[0]["prompt"]) == {"subjects": ["a cube"]}


@pytest.mark.parametrize("field", ["prompt", "negativePrompt"])
def test_a_long_prompt_is_refused_before_anything_is_sent(make: Make, server: NimServer, field: str) -> None:
    most, longer = "a" * 20_000, "a" * 20_001
    prompt = PROMPT if field == "negativePrompt" else longer
    error = refused(make, {**VIDEO, "negative_prompt": longer if field == "negativePrompt" else ""}, None, prompt)
    assert error.code == "InvalidInput" and not server.requests
    assert error.message == f"{field}: has 20,001 characters, and the server of this pipeline takes 20,000."
    make({**VIDEO, "negative_prompt": most}, None, most)


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({**VIDEO, "mode": "v2v"}, "input"),
        ({"mode": "inverse_dynamics", **ACTIONS}, "input"),
        ({**TRANSFER, "controls": {"edge": {}}}, "controls.edge"),
    ],
)
def test_a_video_beyond_the_servers_limit_is_refused_before_anything_is_sent(
    make: Make,
    server: NimServer,
    clip: Path,
    monkeypatch: pytest.MonkeyPatch,
    parameters: dict[str, Any],
    field: str,
) -> None:
    monkeypatch.setattr(nim_requests, "VIDEO_CHARACTERS", 1000)
    error = refused(make, parameters, clip)
    assert error.code == "InvalidInput" and error.message.startswith(f"{field}: has ") and not server.requests
    assert "fewer frames" in error.remedy


@pytest.mark.parametrize(
    ("parameters", "notes"),
    [
        (VIDEO, {nim_job.VIDEO_WAS_VP9}),
        (IMAGE, {nim_job.IMAGE_WAS_JPEG, nim_job.NO_GUIDANCE_INTERVAL}),
        ({**IMAGE, "guidance_scale": 1}, {nim_job.IMAGE_WAS_JPEG}),
        ({**VIDEO, "max_sequence_length": 400}, {nim_job.VIDEO_WAS_VP9, nim_job.NO_SEQUENCE_LENGTH}),
        ({**VIDEO, "mode": "v2v"}, {nim_job.VIDEO_WAS_VP9, SENT_AS_H264}),
        ({**TRANSFER, "controls": {"edge": {}}}, {nim_job.VIDEO_WAS_VP9, SENT_AS_H264}),
        ({"mode": "policy", **ACTIONS}, {nim_job.VIDEO_WAS_VP9, nim_job.NO_VIEW_POINT}),
    ],
)
def test_notes_tell_what_the_server_does_otherwise(
    make: Make, clip: Path, parameters: dict[str, Any], notes: set[str]
) -> None:
    medium = None if parameters["mode"] in ("t2v", "t2i") else clip
    always = {nim_job.UNCONFIRMED_SAMPLING, nim_job.PROMPTS_AS_WRITTEN, nim_job.UNKNOWN_PRECISION}
    assert set(make(parameters, medium).notes) == always | notes


def test_guardrails_of_the_server_are_not_verified_and_stay_on(make: Make) -> None:
    guarded = make(IMAGE, guarded=True)
    assert guarded.checks == NOT_VERIFIED and nim_job.GUARDRAILS_STAYED_ON not in guarded.notes
    switched_off = make({**IMAGE, "guardrails": False}, guarded=True)
    assert switched_off.checks == NOT_VERIFIED and nim_job.GUARDRAILS_STAYED_ON in switched_off.notes
    unguarded = make(IMAGE)
    assert unguarded.checks == Checks() and nim_job.GUARDRAILS_STAYED_ON not in unguarded.notes
