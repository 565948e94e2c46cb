"""Sizes and numbers of frames are settled by NVIDIA's table, or refused with a remedy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.catalogue.formats import Medium
from cosmos_batch.catalogue.generation import (
    FRAME_LIMIT,
    SIZES,
    VIDEO_RESOLUTIONS,
    Size,
    aspect_ratio_of,
    nearest_size,
    round_down_frames,
    round_up_frames,
    tier_of,
)
from cosmos_batch.contract.error import Failure
from cosmos_batch.planning.generation.abilities import is_in_table
from cosmos_batch.planning.generation.aliases import tier_that_holds
from cosmos_batch.planning.generation.dimensions import fit_to_input, refuse_size
from tests.support.generations import EDGE, refusal, settled

# As printed in docs/inference.md of NVIDIA/cosmos-framework.
PUBLISHED = """
1:1  256x256 640x640 960x960  1024x1024
4:3  320x256 736x544 1104x832 1184x880
3:4  256x320 544x736 832x1104 880x1184
16:9 320x192 832x480 1280x720 1360x768
9:16 192x320 480x832 720x1280 768x1360
"""


def test_the_sizes_are_those_that_nvidia_publishes() -> None:
    rows = [line.split() for line in PUBLISHED.strip().splitlines()]
    assert rows == [[ratio, *(str(SIZES[tier][ratio]) for tier in SIZES)] for ratio in SIZES["256p"]]


def test_a_size_that_is_not_in_the_table_has_no_aspect_ratio_of_it() -> None:
    assert aspect_ratio_of(Size(640, 480)) is None


@pytest.mark.parametrize("size", [size for sizes in SIZES.values() for size in sizes.values()], ids=str)
def test_every_size_of_the_table_is_admitted_for_an_image_and_belongs_to_its_tier(size: Size) -> None:
    refuse_size(size, is_video=False)
    assert size in SIZES[tier_of(size) or "256p"].values() and is_in_table(size)
    tier, ratio = tier_of(size), aspect_ratio_of(size)
    assert tier is not None and ratio is not None and SIZES[tier][ratio] == size


@pytest.mark.parametrize("tier", VIDEO_RESOLUTIONS)
def test_a_tier_with_an_aspect_ratio_is_a_size(tier: str) -> None:
    for ratio, size in SIZES[tier].items():  # type: ignore[index]
        generation = settled({"resolution": tier, "aspectRatio": ratio})
        assert (generation.size, generation.resolution) == (size, None)


@pytest.mark.parametrize(
    ("pipeline", "mode", "medium", "size", "tier"),
    [
        ("cosmos3-nano", "t2i", None, (960, 960), None),
        ("cosmos3-super", "t2i", None, (960, 960), None),
        ("cosmos3-super-text2image", "t2i", None, (1024, 1024), None),
        ("cosmos3-nano", "t2v", None, (1280, 720), None),
        ("cosmos3-super", "t2v", None, (1280, 720), None),
        ("cosmos3-super-image2video", "i2v", "image", None, "720p"),
    ],
)
def test_each_model_has_its_own_default_size(
    pipeline: str, mode: str, medium: Medium | None, size: tuple[int, int] | None, tier: str | None
) -> None:
    generation = settled({"mode": mode}, medium=medium, pipeline=pipeline)
    assert (generation.size, generation.resolution) == (size, tier)


def test_the_largest_video_of_a_pipeline_does_not_limit_its_images() -> None:
    assert settled(pipeline="cosmos3-super-text2image", max_resolution="256p").size == (1024, 1024)
    parameters = {"resolution": "480p"}
    assert settled(parameters, pipeline="cosmos3-super-text2image").size == (640, 640)


@pytest.mark.parametrize(
    "parameters", [{"resolution": 480, "aspect_ratio": "16,9"}, {"resolution": "480"}, {"size": "832x480"}]
)
def test_sizes_are_read_in_other_notations_too(parameters: dict[str, object]) -> None:
    assert settled(parameters).size == (832, 480)


@given(width=st.integers(-100, 5000), height=st.integers(-100, 5000))
def test_a_size_is_admitted_or_refused_with_a_remedy(width: int, height: int) -> None:
    size = Size(width, height)
    try:
        refuse_size(size, is_video=True)
    except Failure as failure:
        assert str(size) in failure.error.message and failure.error.remedy
    else:
        assert width % 16 == height % 16 == 0 and size.area <= 960 * 960 and tier_of(size) in FRAME_LIMIT


@given(width=st.integers(-100, 5000), height=st.integers(-100, 5000))
def test_the_size_that_a_refusal_suggests_is_a_multiple(width: int, height: int) -> None:
    try:
        refuse_size(Size(width, height), is_video=True)
    except Failure as failure:
        if "not multiples" in failure.error.message:
            sides = failure.error.remedy.removeprefix("Use ").split(",")[0].split("x")
            assert all(int(side) >= 32 and int(side) % 16 == 0 for side in sides)


@given(frames=st.integers(1, 10_000))
def test_frames_are_rounded_to_4k_plus_1_up_or_down(frames: int) -> None:
    above, below = round_up_frames(frames), round_down_frames(frames)
    assert above % 4 == below % 4 == 1
    assert below <= frames <= above and above - below in (0, 4)


@given(frames=st.integers(-10, 12_000), tier=st.sampled_from(VIDEO_RESOLUTIONS))
def test_a_number_of_frames_is_rounded_up_or_refused_with_a_remedy(frames: int, tier: str) -> None:
    parameters = {"numFrames": frames, "resolution": tier}
    if 2 <= frames <= FRAME_LIMIT[tier]:  # type: ignore[index]
        generation = settled(parameters)
        assert generation.num_frames == round_up_frames(frames)
        rounded = any(f"{frames} frames became" in note for note in generation.notes)
        short = any("NVIDIA recommends at least 24" in note for note in generation.notes)
        assert (rounded, short) == (frames % 4 != 1, round_up_frames(frames) < 24)
        assert len(generation.notes) == rounded + short
    else:
        error = refusal(parameters)
        assert f"{frames:,}" in error.message and str(FRAME_LIMIT[tier]) in error.remedy  # type: ignore[index]


@pytest.mark.parametrize("frames", [0, 1, 10_000])
def test_too_few_and_too_many_frames_are_refused(frames: int) -> None:
    assert f"numFrames: {frames:,}" in refusal({"numFrames": frames}).message
    assert "numFrames" in refusal({**EDGE, "numFrames": frames}).message


def test_a_size_of_61x61_is_refused_and_64x64_suggested() -> None:
    error = refusal({"width": 61, "height": 61})
    assert error.message == "width, height: 61x61 are not multiples of 16."
    assert "64x64" in error.remedy


def test_a_video_above_720p_and_an_image_above_768p_are_refused() -> None:
    assert "1360x768" in refusal({"width": 1360, "height": 768}).message
    assert "is for images" in refusal({"resolution": "768p"}).message
    assert settled({"mode": "t2i", "width": 1360, "height": 768}).size == (1360, 768)
    assert settled({"mode": "t2i", "resolution": "768p"}).size == (1024, 1024)
    refusal({"mode": "t2i", "width": 1360, "height": 1360})


@pytest.mark.parametrize(
    "parameters",
    [{"width": 640}, {"height": 640}, {"width": 640, "height": 480, "resolution": "480p"}],
)
def test_half_a_size_and_two_sizes_are_refused(parameters: dict[str, object]) -> None:
    assert "width, height" in refusal(parameters).message


def test_an_input_gets_the_size_nearest_to_its_shape() -> None:
    assert nearest_size("720p", 1000, 1000) == (960, 960)
    assert nearest_size("480p", 1080, 1920) == (480, 832)
    generation = settled({"resolution": "256p"}, medium="image")
    assert generation.size is None and fit_to_input(generation, 4000, 3000).size == (320, 256)
    named = settled({"resolution": "256p", "aspectRatio": "16:9"}, medium="image")
    assert fit_to_input(named, 4000, 3000).size == (320, 192)


def test_the_tier_of_a_picture_is_the_smallest_that_holds_it() -> None:
    assert [tier_that_holds(Size(*size)) for size in [(300, 190), (576, 320), (900, 500), (4000, 3000)]] == [
        "256p", "480p", "720p", "720p",
    ]  # fmt: skip


def test_a_pipeline_refuses_videos_above_its_largest_resolution_and_admits_all_images() -> None:
    for parameters, field in (
        ({"width": 1280, "height": 720}, "width, height"),
        ({"resolution": "720p"}, "resolution"),
    ):
        error = refusal({"mode": "t2v", **parameters}, max_resolution="480p")
        assert error.message == f"{field}: 720p is larger than this pipeline admits."
        assert error.remedy == "Use one of: 256p, 480p."
        assert settled({"mode": "t2i", **parameters}, max_resolution="480p").size


def test_the_default_size_is_at_most_the_largest_that_the_pipeline_admits() -> None:
    assert settled(max_resolution="480p").size == (832, 480)
    assert settled({"mode": "policy", "domain_name": "av"}, medium="image", max_resolution="256p").resolution == "256p"
    error = refusal({"resolution": "720p"}, max_resolution="480p")
    assert "larger than this pipeline admits" in error.message and error.remedy == "Use one of: 256p, 480p."
    assert "width, height: 720p" in refusal({"size": "1280x720"}, max_resolution="256p").message
    assert settled({"mode": "t2i", "resolution": "768p"}, max_resolution="256p").size == (1024, 1024)
