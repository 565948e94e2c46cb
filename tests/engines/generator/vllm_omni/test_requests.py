"""The requests to vLLM-Omni in each mode, and the files from its responses. `tests/omni` has the real server."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmos_batch.engines.factory import create_engine
from cosmos_batch.engines.generator.vllm_omni.engine import VllmOmniEngine
from cosmos_batch.engines.generator.vllm_omni.plugin import REQUEST_NAME
from cosmos_batch.engines.protocol import CompilingEngine, GuardrailEngine, ParallelEngine
from cosmos_batch.media import ImageInfo, VideoInfo, probe
from tests.engines.generator.vllm_omni.conftest import VIDEO, Make, probe_upload, video
from tests.support.generator_jobs import ACTIONS, PROMPT, ROWS, SMALL, TABLE


def test_engine_has_the_optional_interfaces(engine: VllmOmniEngine) -> None:
    assert (
        isinstance(engine, GuardrailEngine)
        and isinstance(engine, ParallelEngine)
        and isinstance(engine, CompilingEngine)
    )
    assert create_engine("vllm-omni").name == engine.name == "vllm-omni 0.30.0"
    assert engine.startup_logs[-1].startswith("vllm-omni 0.30.0 is ready")
    assert engine.compiled_for()["plan"] == "one GPU"


def test_an_image_is_requested_and_written(
    make: Make, sent_requests: Callable[[], list[dict[str, Any]]], tmp_path: Path
) -> None:
    result = make({"mode": "t2i", "image_format": "jpeg", "seed": 2**32 - 1, **SMALL}, guardrails=False)
    assert probe(tmp_path / "out" / result.files[0].name) == ImageInfo(64, 48) and result.files[0].role == "image"
    (sent,) = sent_requests()
    extra = sent.pop("extra_params")
    assert sent.pop("extra_args") == extra and extra.pop(REQUEST_NAME)
    assert sent == {
        "path": "/v1/images/generations",
        "prompt": f"{PROMPT} This image is of 48x64 resolution.",
        "negative_prompt": "This image is not of 48x64 resolution.",
        "size": "64x48",
        "num_inference_steps": 2,
        "guidance_scale": 7.0,
        "flow_shift": 3.0,
        "seed": 2**32 - 1,
        "n": 1,
        "response_format": "b64_json",
        "output_format": "png",
    }
    assert extra == {
        "guardrails": False,
        "max_sequence_length": 512 + 256,  # 256 for chat markup and system prompt
        "use_resolution_template": False,
        "use_duration_template": False,
        "negative_metadata_mode": "none",
        "use_system_prompt": True,
        "guidance_interval": [400.0, 1000.0],
    }
    assert result.timings.keys() == {"prepare", "generate", "write"}


@pytest.mark.parametrize("sound", [False, True])
def test_request_of_a_video_has_every_parameter(
    make: Make, sent_requests: Callable[[], list[dict[str, Any]]], tmp_path: Path, sound: bool
) -> None:
    result = make({**VIDEO, "fps": 29.97, "sound": sound, "negative_prompt": "", "seed": 5})
    assert video(result, tmp_path) == (64, 48, 9, 29.97)
    sent, deletion = sent_requests()
    extra = json.loads(sent.pop("extra_params"))
    assert sent == {
        "path": "/v1/videos",
        "prompt": f"{PROMPT} The video is 0.3 seconds long and is of 30 FPS. This video is of 48x64 resolution.",
        "negative_prompt": "The video is not 0.3 seconds long and is not of 30 FPS. "
        "This video is not of 48x64 resolution.",
        "size": "64x48",
        "num_inference_steps": "2",
        "guidance_scale": "6.0",
        "flow_shift": "10.0",
        "seed": "5",
        "num_frames": "9",
        "fps": "29.97",
        "generate_sound": str(sound).lower(),
        "files": {},
    }
    assert extra["guardrails"] is True and "guidance_interval" not in extra
    assert extra["video_codec_options"]["qp"] == "0", "only our own encoding may be lossy"
    assert deletion == {"path": "/v1/videos/video_gen_0", "deleted": True}
    assert result.facts == {
        "scheduler": "UniPC",
        "plan": "one GPU",
        "stages": {"stage_0_gen_ms": 500.0},
        "peakGpuBytes": 2 << 20,
    }


def test_input_image_is_sent_at_the_outputs_size(
    make: Make, sent_requests: Callable[[], list[dict[str, Any]]], picture: Path, tmp_path: Path
) -> None:
    """The server would stretch an image of another aspect ratio."""
    assert video(make({**SMALL, "num_frames": 9}, picture), tmp_path)[:3] == (64, 48, 9)
    assert probe_upload(sent_requests()[0], "input_reference") == "input.png"


@pytest.mark.parametrize("keep", ["first", "last"])
def test_only_conditioning_frames_of_a_video_are_sent(
    make: Make, sent_requests: Callable[[], list[dict[str, Any]]], clip: Path, tmp_path: Path, keep: str
) -> None:
    result = make({**SMALL, "num_frames": 13, "condition_keep": keep, "condition_frames": [0, 1, 2]}, clip)
    assert video(result, tmp_path) == (64, 48, 13, 24)
    extra = json.loads(sent_requests()[0]["extra_params"])
    assert (extra["condition_frame_indexes_vision"], extra["condition_video_keep"]) == ([0, 1, 2], "first")
    sent = probe(tmp_path / "out" / "input.mp4")
    assert isinstance(sent, VideoInfo) and (sent.width, sent.height, len(sent.timeline.times)) == (64, 48, 9)


def test_domain_without_a_name_in_vllm_omni_is_sent_as_a_number(
    make: Make, sent_requests: Callable[[], list[dict[str, Any]]], clip: Path
) -> None:
    make({"mode": "forward_dynamics", **ACTIONS, "domain_name": "robotwin", "action": [[0.1] * 14] * 4}, clip)
    extra = json.loads(sent_requests()[0]["extra_params"])
    assert (extra["domain_id"], extra["raw_action_dim"]) == (17, 14) and "domain_name" not in extra


@pytest.mark.parametrize("mode", ["forward_dynamics", "inverse_dynamics", "policy"])
def test_actions_are_requested_and_written(
    make: Make, sent_requests: Callable[[], list[dict[str, Any]]], clip: Path, tmp_path: Path, mode: str
) -> None:
    actions = {"action": ROWS} if mode == "forward_dynamics" else {}
    result = make({"mode": mode, **actions, **ACTIONS}, clip)
    assert video(result, tmp_path) == (320, 240, 5, 5)
    assert np.array(json.loads((tmp_path / "out" / "actions.json").read_text())).shape == (4, 10)
    sent = sent_requests()[0]
    extra = json.loads(sent["extra_params"])
    assert (sent["num_frames"], sent["fps"], sent["flow_shift"], sent["guidance_scale"]) == ("5", "5.0", "10.0", "1.0")
    assert (extra["action_mode"], extra["domain_name"]) == (mode, "bridge_orig_lerobot")
    assert (extra["raw_action_dim"], extra["action_chunk_size"], extra.get("action")) == (10, 4, actions.get("action"))
    assert extra["use_system_prompt"] is False
    name = probe_upload(sent, "input_reference")
    assert name == ("input.mp4" if mode == "inverse_dynamics" else "input.png")
    assert not result.notes


def test_prompt_in_json_is_protected(make: Make, sent_requests: Callable[[], list[dict[str, Any]]]) -> None:
    """The server would write size and duration into a caption that parses as JSON."""
    make(VIDEO, prompt={"subject": "a robot"})
    assert sent_requests()[0]["prompt"] == '{"subject": "a robot"}\f'


def test_several_controls_are_shared_as_files(
    make: Make, sent_requests: Callable[[], list[dict[str, Any]]], clip: Path, tmp_path: Path
) -> None:
    controls = {"edge": {"weight": 0.5}, "blur": {}, "depth": {"path": "s3://my-bucket/depth.mp4"}}
    parameters = {"mode": "transfer", "controls": controls, "frames_per_chunk": 21, **TABLE}
    result = make(parameters, clip, controls={"depth": clip})
    assert video(result, tmp_path)[:3] == (320, 192, 9)
    sent = json.loads(sent_requests()[0]["extra_params"])
    assert sent_requests()[0]["files"] == {}
    for hint, weight in (("edge", 0.5), ("blur", 1.0), ("depth", 1.0)):
        assert sent[hint] == {"control_weight": weight, "control_path": str(tmp_path / "out" / f"{hint}.mp4")}
        info = probe(Path(sent[hint]["control_path"]))
        assert isinstance(info, VideoInfo) and (info.width, info.height, len(info.timeline.times)) == (320, 192, 9)
    assert (sent["resolution"], sent["num_video_frames_per_chunk"], sent["control_guidance"]) == ("256", 9, 1.5)
    assert "use_system_prompt" not in sent, "a transfer has its own"
    assert sent["emphasize_control_in_prompt"] is False
