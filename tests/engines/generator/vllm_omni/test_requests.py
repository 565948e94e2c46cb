"""What is sent to vLLM-Omni of each mode, and what is made of what comes back. The real server is in tests/omni."""

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


def test_it_is_what_a_worker_sets_up(engine: VllmOmniEngine) -> None:
    assert (
        isinstance(engine, GuardrailEngine)
        and isinstance(engine, ParallelEngine)
        and isinstance(engine, CompilingEngine)
    )
    assert create_engine("vllm-omni").name == engine.name == "vllm-omni 0.30.0"
    assert engine.startup_logs[-1].startswith("vllm-omni 0.30.0 is ready")
    assert engine.compiled_for()["plan"] == "one GPU"


def test_an_image(make: Make, asked: Callable[[], list[dict[str, Any]]], tmp_path: Path) -> None:
    made = make({"mode": "t2i", "image_format": "jpeg", "seed": 2**32 - 1, **SMALL}, guardrails=False)
    assert probe(tmp_path / "out" / made.files[0].name) == ImageInfo(64, 48) and made.files[0].role == "image"
    (said,) = asked()
    extra = said.pop("extra_params")
    assert said.pop("extra_args") == extra and extra.pop(REQUEST_NAME)
    assert said == {
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
        "max_sequence_length": 512 + 256,  # with what stands around a prompt
        "use_resolution_template": False,
        "use_duration_template": False,
        "negative_metadata_mode": "none",
        "use_system_prompt": True,
        "guidance_interval": [400.0, 1000.0],
    }
    assert made.timings.keys() == {"prepare", "generate", "write"}


@pytest.mark.parametrize("sound", [False, True])
def test_text_becomes_a_video_with_all_that_is_asked(
    make: Make, asked: Callable[[], list[dict[str, Any]]], tmp_path: Path, sound: bool
) -> None:
    made = make({**VIDEO, "fps": 29.97, "sound": sound, "negative_prompt": "", "seed": 5})
    assert video(made, tmp_path) == (64, 48, 9, 29.97)
    said, forgotten = asked()
    extra = json.loads(said.pop("extra_params"))
    assert said == {
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
    assert extra["video_codec_options"]["qp"] == "0", "it is compressed once, by us"
    assert forgotten == {"path": "/v1/videos/video_gen_0", "deleted": True}
    assert made.facts == {
        "scheduler": "UniPC",
        "plan": "one GPU",
        "stages": {"stage_0_gen_ms": 500.0},
        "peakGpuBytes": 2 << 20,
    }


def test_an_image_is_sent_at_exactly_its_size(
    make: Make, asked: Callable[[], list[dict[str, Any]]], picture: Path, tmp_path: Path
) -> None:
    """It would be stretched to it."""
    assert video(make({**SMALL, "num_frames": 9}, picture), tmp_path)[:3] == (64, 48, 9)
    assert probe_upload(asked()[0], "input_reference") == "input.png"


@pytest.mark.parametrize("keep", ["first", "last"])
def test_of_a_video_that_goes_on_only_the_frames_that_stay_are_sent(
    make: Make, asked: Callable[[], list[dict[str, Any]]], clip: Path, tmp_path: Path, keep: str
) -> None:
    made = make({**SMALL, "num_frames": 13, "condition_keep": keep, "condition_frames": [0, 1, 2]}, clip)
    assert video(made, tmp_path) == (64, 48, 13, 24)
    extra = json.loads(asked()[0]["extra_params"])
    assert (extra["condition_frame_indexes_vision"], extra["condition_video_keep"]) == ([0, 1, 2], "first")
    sent = probe(tmp_path / "out" / "input.mp4")
    assert isinstance(sent, VideoInfo) and (sent.width, sent.height, len(sent.timeline.times)) == (64, 48, 9)


def test_a_domain_that_it_knows_by_its_number_alone(
    make: Make, asked: Callable[[], list[dict[str, Any]]], clip: Path
) -> None:
    make({"mode": "forward_dynamics", **ACTIONS, "domain_name": "robotwin", "action": [[0.1] * 14] * 4}, clip)
    extra = json.loads(asked()[0]["extra_params"])
    assert (extra["domain_id"], extra["raw_action_dim"]) == (17, 14) and "domain_name" not in extra


@pytest.mark.parametrize("mode", ["forward_dynamics", "inverse_dynamics", "policy"])
def test_actions(make: Make, asked: Callable[[], list[dict[str, Any]]], clip: Path, tmp_path: Path, mode: str) -> None:
    given = {"action": ROWS} if mode == "forward_dynamics" else {}
    made = make({"mode": mode, **given, **ACTIONS}, clip)
    assert video(made, tmp_path) == (320, 240, 5, 5)
    assert np.array(json.loads((tmp_path / "out" / "actions.json").read_text())).shape == (4, 10)
    said = asked()[0]
    extra = json.loads(said["extra_params"])
    assert (said["num_frames"], said["fps"], said["flow_shift"], said["guidance_scale"]) == ("5", "5.0", "10.0", "1.0")
    assert (extra["action_mode"], extra["domain_name"]) == (mode, "bridge_orig_lerobot")
    assert (extra["raw_action_dim"], extra["action_chunk_size"], extra.get("action")) == (10, 4, given.get("action"))
    assert extra["use_system_prompt"] is False
    name = probe_upload(said, "input_reference")
    assert name == ("input.mp4" if mode == "inverse_dynamics" else "input.png")
    assert not made.notes


def test_a_prompt_in_json_is_sent_as_no_json(make: Make, asked: Callable[[], list[dict[str, Any]]]) -> None:
    """It would write size and duration into it."""
    make(VIDEO, prompt={"subject": "a robot"})
    assert asked()[0]["prompt"] == '{"subject": "a robot"}\f'


def test_several_controls_lie_beside_each_other(
    make: Make, asked: Callable[[], list[dict[str, Any]]], clip: Path, tmp_path: Path
) -> None:
    controls = {"edge": {"weight": 0.5}, "blur": {}, "depth": {"path": "s3://my-bucket/depth.mp4"}}
    said = {"mode": "transfer", "controls": controls, "frames_per_chunk": 21, **TABLE}
    made = make(said, clip, controls={"depth": clip})
    assert video(made, tmp_path)[:3] == (320, 192, 9)
    sent = json.loads(asked()[0]["extra_params"])
    assert asked()[0]["files"] == {}
    for hint, weight in (("edge", 0.5), ("blur", 1.0), ("depth", 1.0)):
        assert sent[hint] == {"control_weight": weight, "control_path": str(tmp_path / "out" / f"{hint}.mp4")}
        found = probe(Path(sent[hint]["control_path"]))
        assert isinstance(found, VideoInfo) and (found.width, found.height, len(found.timeline.times)) == (320, 192, 9)
    assert (sent["resolution"], sent["num_video_frames_per_chunk"], sent["control_guidance"]) == ("256", 9, 1.5)
    assert "use_system_prompt" not in sent, "it has its own"
    assert sent["emphasize_control_in_prompt"] is False
