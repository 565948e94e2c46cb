"""Transfers are settled by their controls, and refused if control videos are missing or do not fit together."""

from typing import Any

import pytest

from cosmos_batch.catalogue.generation import HINT_DEFAULTS, Hint, Size
from cosmos_batch.contract.error import Failure
from cosmos_batch.planning.generation.dimensions import fit_to_input
from cosmos_batch.planning.generation.transfer import follow_controls, may_have_frames, refuse_long_controls
from tests.support.generations import EDGE, refusal, settled

PATHS = {hint: {"path": f"s3://my-bucket/{hint}.mp4"} for hint in HINT_DEFAULTS}


@pytest.mark.parametrize(
    ("hint", "guidance", "control_guidance", "chunk"),
    [("edge", 3, 1.5, 93), ("blur", 3, 1.5, 93), ("depth", 3, 1.5, 93), ("seg", 3, 2, 93), ("wsm", 1, 3, 101)],
)
def test_a_single_control_has_nvidias_settings(hint: str, guidance: float, control_guidance: float, chunk: int) -> None:
    generation = settled({"mode": "transfer", "controls": {hint: PATHS[hint]}})  # type: ignore[index]
    assert generation.transfer is not None
    assert (generation.guidance_scale, generation.transfer.control_guidance, generation.transfer.frames_per_chunk) == (
        guidance, control_guidance, chunk,
    )  # fmt: skip


def test_several_controls_are_in_the_models_order_with_edges_defaults() -> None:
    generation = settled(
        {"mode": "transfer", "controls": {"wsm": PATHS["wsm"], "edge": {**PATHS["edge"], "weight": 0.3}}}
    )
    assert generation.transfer is not None
    assert [(hint, control.weight) for hint, control in generation.transfer.controls.items()] == [
        ("edge", 0.3),
        ("wsm", 1.0),
    ]
    assert generation.transfer.control_guidance == 1.5 and generation.guidance_scale == 3.0


@pytest.mark.parametrize(
    "parameters",
    [
        {"edge": {"control_path": "s3://my-bucket/e.mp4", "control_weight": 2.0, "preset_edge_threshold": "medium"}},
        {"controls": {"edge": {"path": "s3://my-bucket/e.mp4", "weight": 2.0}}},
        {"controls": '{"edge": {"path": "s3://my-bucket/e.mp4", "weight": 2.0}}'},
    ],
)
def test_controls_are_read_in_the_notations_of_engines(parameters: dict[str, Any]) -> None:
    generation = settled({"mode": "transfer", **parameters})
    assert generation.transfer is not None
    assert generation.transfer.controls["edge"].model_dump() == {
        "path": "s3://my-bucket/e.mp4", "weight": 2.0, "strength": "medium",
    }  # fmt: skip


def test_only_edge_and_blur_are_computed_from_the_input() -> None:
    generation = settled({"mode": "transfer", "edge": True, "blur": {}}, medium="video")
    assert generation.transfer is not None and list(generation.transfer.controls) == ["edge", "blur"]
    assert "no input to compute it from" in refusal({"mode": "transfer", "edge": True}).message
    assert "controls.depth: has no path" in refusal({"mode": "transfer", "depth": True}, medium="video").message


def test_an_external_server_accepts_one_control() -> None:
    parameters = {"mode": "transfer", "controls": {"edge": {}}}
    assert settled(parameters, "video", by_url=True, engine="vllm-omni").transfer
    several = {**parameters, "controls": {"edge": {}, "blur": {}}}
    error = refusal(several, medium="video", by_url=True, engine="vllm-omni")
    assert "controls: there are 2" in error.message and "one control" in error.remedy
    assert settled(several, "video", by_url=True, engine="nim").transfer


def test_a_transfer_without_a_control_or_without_weight_is_refused() -> None:
    assert "needs at least one" in refusal({"mode": "transfer"}, medium="video").message
    assert "needs at least one" in refusal({"mode": "transfer", "edge": False}, medium="video").message
    assert "weights are 0" in refusal({"mode": "transfer", "edge": {"weight": 0}}, medium="video").message


def test_frames_and_frame_rate_come_from_the_control_videos() -> None:
    generation = settled(EDGE)
    assert (generation.num_frames, generation.fps, generation.size, generation.resolution) == (None, None, None, "720p")
    after = follow_controls(fit_to_input(generation, 640, 480), {"edge": 120}, fps=30.0)
    assert (after.num_frames, after.fps, after.size) == (117, 30.0, (1104, 832))
    requested = follow_controls(settled({**EDGE, "num_frames": 61, "fps": 15.0}), {"edge": 121}, fps=30.0)
    assert (requested.num_frames, requested.fps) == (61, 15.0)


@pytest.mark.parametrize(
    ("requested", "available", "expected", "message"),
    [
        (120, 120, 117, "121 frames became 117: the control videos have 120, and the model generates 4k+1."),
        (119, 118, 117, "121 frames became 117: the control videos have 118, and the model generates 4k+1."),
        (None, 120, 117, "Only the first 117 of the control videos' 120 frames are used: the model generates 4k+1."),
        (121, 121, 121, None),
        (None, 121, 121, None),
        (61, 120, 61, None),
    ],
)
def test_a_control_video_whose_length_is_not_4k_plus_1_shortens_the_result(
    requested: int | None, available: int, expected: int, message: str | None
) -> None:
    planned = settled({**EDGE, "num_frames": requested})
    followed = follow_controls(planned, {"edge": available}, fps=30.0)
    assert followed.num_frames == expected and may_have_frames(planned, expected)
    assert [note for note in followed.notes if note not in planned.notes] == ([message] if message else [])


def test_short_control_videos_add_a_note_once() -> None:
    """The number of frames is known when the controls are decoded, or when the request names it."""
    for planned in (settled(EDGE), settled({**EDGE, "num_frames": 21})):
        [note] = follow_controls(planned, {"edge": 21}, fps=30.0).notes
        assert note.startswith("The video has 21 frames. NVIDIA recommends at least 24")


def test_a_result_may_be_one_step_shorter_than_requested() -> None:
    planned = settled({**EDGE, "num_frames": 120})
    assert [frames for frames in (125, 121, 117, 113, 1, None) if may_have_frames(planned, frames)] == [121, 117]


@pytest.mark.parametrize(
    ("requested", "frames", "message"),
    [
        (None, {"edge": 121, "depth": 120}, "differ in their frames: edge 121, depth 120"),
        (121, {"edge": 93}, "frames are edge 93; 121 are needed"),
        (None, {"edge": 3}, "5 or more are needed"),
    ],
)
def test_control_videos_of_unsuitable_lengths_are_refused(
    requested: int | None, frames: dict[Hint, int], message: str
) -> None:
    with pytest.raises(Failure, match=message):
        follow_controls(settled({**EDGE, "num_frames": requested}), frames, fps=30.0)


def test_chunks_have_the_frame_limit_of_their_tier() -> None:
    assert "framesPerChunk: 301 is not possible at 480p" in refusal(
        {**EDGE, "frames_per_chunk": 301, "resolution": "480p"}
    ).message  # fmt: skip
    generation = settled({**EDGE, "frames_per_chunk": 120})
    assert generation.transfer is not None and generation.transfer.frames_per_chunk == 121


def test_controls_that_fill_a_hosts_memory_are_refused() -> None:
    large = Size(1280, 720)
    refuse_long_controls(5000, Size(832, 480), 4)
    refuse_long_controls(1800, large, 5)
    with pytest.raises(Failure, match="5 of 2000 frames of 1280x720 take 26 GiB when decoded; the limit is 24"):
        refuse_long_controls(2000, large, 5)
