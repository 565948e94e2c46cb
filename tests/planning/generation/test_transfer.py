"""Transfer: which controls, how much of each, and videos that go together."""

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
def test_each_hint_alone_has_nvidias_settings(hint: str, guidance: float, control_guidance: float, chunk: int) -> None:
    made = settled({"mode": "transfer", "controls": {hint: PATHS[hint]}})  # type: ignore[index]
    assert made.transfer is not None
    assert (made.guidance_scale, made.transfer.control_guidance, made.transfer.frames_per_chunk) == (
        guidance, control_guidance, chunk,
    )  # fmt: skip


def test_several_are_in_the_models_order_with_weights() -> None:
    made = settled({"mode": "transfer", "controls": {"wsm": PATHS["wsm"], "edge": {**PATHS["edge"], "weight": 0.3}}})
    assert made.transfer is not None
    assert [(hint, one.weight) for hint, one in made.transfer.controls.items()] == [("edge", 0.3), ("wsm", 1.0)]
    assert made.transfer.control_guidance == 1.5 and made.guidance_scale == 3.0


@pytest.mark.parametrize(
    "said",
    [
        {"edge": {"control_path": "s3://my-bucket/e.mp4", "control_weight": 2.0, "preset_edge_threshold": "medium"}},
        {"controls": {"edge": {"path": "s3://my-bucket/e.mp4", "weight": 2.0}}},
        {"controls": '{"edge": {"path": "s3://my-bucket/e.mp4", "weight": 2.0}}'},
    ],
)
def test_controls_may_be_said_as_engines_do(said: dict[str, Any]) -> None:
    made = settled({"mode": "transfer", **said})
    assert made.transfer is not None
    assert made.transfer.controls["edge"].model_dump() == {
        "path": "s3://my-bucket/e.mp4", "weight": 2.0, "strength": "medium",
    }  # fmt: skip


def test_edge_and_blur_are_made_from_the_input_and_the_others_are_not() -> None:
    made = settled({"mode": "transfer", "edge": True, "blur": {}}, medium="video")
    assert made.transfer is not None and list(made.transfer.controls) == ["edge", "blur"]
    assert "no input to compute it from" in refusal({"mode": "transfer", "edge": True}).message
    assert "controls.depth: has no path" in refusal({"mode": "transfer", "depth": True}, medium="video").message


def test_a_server_by_url_takes_one_control() -> None:
    one = {"mode": "transfer", "controls": {"edge": {}}}
    assert settled(one, "video", by_url=True).transfer
    error = refusal({**one, "controls": {"edge": {}, "blur": {}}}, medium="video", by_url=True)
    assert "controls: are 2" in error.message and "one control" in error.remedy


def test_nothing_to_follow() -> None:
    assert "needs at least one" in refusal({"mode": "transfer"}, medium="video").message
    assert "needs at least one" in refusal({"mode": "transfer", "edge": False}, medium="video").message
    assert "weights are 0" in refusal({"mode": "transfer", "edge": {"weight": 0}}, medium="video").message


def test_frames_rate_and_size_are_the_control_videos() -> None:
    made = settled(EDGE)
    assert (made.num_frames, made.fps, made.size, made.resolution) == (None, None, None, "720p")
    after = follow_controls(fit_to_input(made, 640, 480), {"edge": 120}, fps=30.0)
    assert (after.num_frames, after.fps, after.size) == (117, 30.0, (1104, 832))
    asked = follow_controls(settled({**EDGE, "num_frames": 61, "fps": 15.0}), {"edge": 121}, fps=30.0)
    assert (asked.num_frames, asked.fps) == (61, 15.0)


@pytest.mark.parametrize(
    ("asked", "given", "made", "told"),
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
    asked: int | None, given: int, made: int, told: str | None
) -> None:
    planned = settled({**EDGE, "num_frames": asked})
    followed = follow_controls(planned, {"edge": given}, fps=30.0)
    assert followed.num_frames == made and may_have_frames(planned, made)
    assert [note for note in followed.notes if note not in planned.notes] == ([told] if told else [])


def test_a_transfer_is_never_much_shorter_than_was_asked_for() -> None:
    planned = settled({**EDGE, "num_frames": 120})
    assert [made for made in (125, 121, 117, 113, 1, None) if may_have_frames(planned, made)] == [121, 117]


@pytest.mark.parametrize(
    ("asked", "frames", "told"),
    [
        (None, {"edge": 121, "depth": 120}, "differ in their frames: edge 121, depth 120"),
        (121, {"edge": 93}, "frames are edge 93; 121 are needed"),
        (None, {"edge": 3}, "5 or more are needed"),
    ],
)
def test_a_control_video_of_another_length(asked: int | None, frames: dict[Hint, int], told: str) -> None:
    with pytest.raises(Failure, match=told):
        follow_controls(settled({**EDGE, "num_frames": asked}), frames, fps=30.0)


def test_chunks_fit_the_tier() -> None:
    assert "framesPerChunk: 301 is not possible at 480p" in refusal(
        {**EDGE, "frames_per_chunk": 301, "resolution": "480p"}
    ).message  # fmt: skip
    made = settled({**EDGE, "frames_per_chunk": 120})
    assert made.transfer is not None and made.transfer.frames_per_chunk == 121


def test_controls_that_fill_a_hosts_memory_are_refused() -> None:
    large = Size(1280, 720)
    refuse_long_controls(5000, Size(832, 480), 4)
    refuse_long_controls(1800, large, 5)
    with pytest.raises(Failure, match="5 of 2000 frames of 1280x720 take 26 GiB when decoded; the limit is 24"):
        refuse_long_controls(2000, large, 5)
