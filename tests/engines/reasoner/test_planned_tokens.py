"""A run is planned with the tokens that an engine shows the model: the same frames, at the same sizes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmos_batch.catalogue.pipelines import REASONER_CONTEXT
from cosmos_batch.catalogue.pixel_budget import PixelBudget
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.engines.reasoner import chat_request
from cosmos_batch.engines.reasoner.chat_request import CheckpointInfo, prepare_request
from cosmos_batch.engines.reasoner.media_input import DecodedMedia, FileInfo
from cosmos_batch.media import Clip, VideoInfo, frame_sampling, probe
from cosmos_batch.media.fitting import fit
from cosmos_batch.media.timeline import Timeline
from cosmos_batch.planning.runs.question_work import _TIMESTAMP_TOKENS, REFERENCE_TOKENS, ProbedMedia, media_tokens
from tests.engines.conftest import make_job
from tests.support import media_files

SOURCE_FPS = 30
CLIPS = {
    "the clip by which pace is measured": (640, 480, 4.0, {}),
    "short and small": (256, 192, 2.0, {}),
    "short, with more tokens in a frame than one may have": (1920, 1080, 2.0, {}),
    "of the largest frames": (7680, 4320, 4.0, {}),
    "upright": (1080, 1920, 7.0, {}),
    "sides that are rounded": (1280, 720, 3.0, {}),
    "a frame of one token": (16, 16, 60.0, {}),
    "narrow": (4000, 40, 10.0, {}),
    "frames that share the pixels of a video": (1920, 1080, 60.0, {}),
    "more frames than a model takes": (640, 480, 600.0, {}),
    "long and large": (3840, 2160, 3600.0, {}),
    "shorter than the fewest frames": (640, 480, 0.2, {}),
    "an odd number of frames": (640, 480, 1.3, {}),
    "fewer frames a second": (1920, 1080, 30.0, {"fps": 0.1}),
    "more frames a second": (1280, 720, 5.0, {"fps": 15.0}),
    "a part": (1920, 1080, 600.0, {"start": 20.0, "end": 24.5}),
}


def seen(paths: list[Path], **parameters: Any) -> list[DecodedMedia]:
    """Return what a request to a server shows the model of some files."""
    shown: list[DecodedMedia] = []

    def show(media: DecodedMedia, _: Path) -> dict[str, Any]:
        shown.append(media)
        return {}

    job = make_job(paths[0].name, more=[path.name for path in paths[1:]], **parameters)
    prepare_request(CheckpointInfo.without_folder(REASONER_CONTEXT), job, paths, lambda: None, show)
    return shown


def tokens_of(media: DecodedMedia) -> int:
    """Return the tokens of an image or a clip, with the usual tokens for the times of frames."""
    limits = CheckpointInfo.without_folder(REASONER_CONTEXT).limits
    if not isinstance(media, Clip):
        return media.width * media.height // limits.multiple**2
    count, height, width, _ = media.frames.shape
    return int(-(-count // limits.frames_per_token) * (height * width // limits.multiple**2 + _TIMESTAMP_TOKENS))


@pytest.fixture
def undecoded(monkeypatch: pytest.MonkeyPatch) -> Callable[[ProbedMedia], None]:
    """Let files be probed as clips with certain facts. Their frames get the engine's sizes and are not decoded."""

    def black(
        path: Path, info: VideoInfo, wanted: list[float], budget: PixelBudget, *_: object
    ) -> tuple[np.ndarray, list[str]]:
        width, height = fit(info.width, info.height, len(wanted), budget)
        return np.broadcast_to(np.uint8(0), (len(wanted), height, width, 3)), []

    def assume(facts: ProbedMedia) -> None:
        times = np.arange(round(facts.seconds * SOURCE_FPS)) / SOURCE_FPS
        info = VideoInfo(facts.width, facts.height, "h264", "yuv420p", Timeline(times, times[:1], 0.0, facts.seconds))

        def probed(_: object, paths: list[Path]) -> list[FileInfo]:
            return [info] * len(paths)

        monkeypatch.setattr(chat_request, "probe_inputs", probed)

    monkeypatch.setattr(frame_sampling, "_decode_scaled", black)
    return assume


@pytest.mark.parametrize(("width", "height", "seconds", "parameters"), CLIPS.values(), ids=CLIPS)
def test_a_clip_is_planned_with_the_tokens_that_the_engine_shows(
    width: int, height: int, seconds: float, parameters: dict[str, Any], undecoded: Callable[[ProbedMedia], None]
) -> None:
    facts = ProbedMedia("video", width, height, seconds)
    undecoded(facts)
    [clip] = seen([Path("clip.mp4")], **parameters)
    assert media_tokens(facts, Parameters(**parameters)) == pytest.approx(tokens_of(clip), rel=0.03)


@pytest.mark.parametrize(("width", "height"), [(256, 256), (640, 480), (1000, 3000), (6000, 4000), (8000, 100)])
def test_an_image_is_planned_with_the_tokens_that_the_engine_shows(width: int, height: int, tmp_path: Path) -> None:
    path = media_files.image(tmp_path / "picture.png", width, height)
    [image] = seen([path])
    assert media_tokens(ProbedMedia("image", width, height), Parameters()) == pytest.approx(tokens_of(image), rel=0.03)


@pytest.mark.parametrize(
    ("files", "seconds", "max_tokens"),
    [(4, 2.0, None), (2, 600.0, None), (5, 60.0, 100), (16, 600.0, None), (1, 600.0, 32_768)],
)
def test_clips_share_the_context_in_the_plan_as_in_the_engine(
    files: int, seconds: float, max_tokens: int | None, undecoded: Callable[[ProbedMedia], None]
) -> None:
    facts = ProbedMedia("video", 1920, 1080, seconds)
    undecoded(facts)
    clips = seen([Path("clip.mp4")] * files, maxTokens=max_tokens)
    parameters = Parameters(more_inputs=["clip.mp4"] * (files - 1), max_tokens=max_tokens)
    assert media_tokens(facts, parameters) == pytest.approx(sum(map(tokens_of, clips)), rel=0.03)


def test_images_share_the_context_in_the_plan_as_in_the_engine(tmp_path: Path) -> None:
    path = media_files.image(tmp_path / "picture.png", 1920, 1200)
    images = seen([path] * 16)
    parameters = Parameters(more_inputs=[path.name] * 15)
    planned = media_tokens(ProbedMedia("image", 1920, 1200), parameters)
    assert planned == pytest.approx(sum(map(tokens_of, images)), rel=0.03)


@pytest.mark.parametrize(("width", "height"), [(320, 256), (1920, 1080)])
def test_a_decoded_file_has_the_planned_tokens(width: int, height: int, tmp_path: Path) -> None:
    path = media_files.video(tmp_path / "clip.mp4", width=width, height=height)
    info = probe(path)
    assert isinstance(info, VideoInfo)
    [clip] = seen([path])
    facts = ProbedMedia("video", info.width, info.height, info.timeline.duration)
    assert media_tokens(facts, Parameters()) == tokens_of(clip)


def test_the_clip_by_which_pace_is_measured_has_its_tokens() -> None:
    """docs/benchmarks.md measures clips of this size and length, of which a model sees 16 frames."""
    assert media_tokens(ProbedMedia("video", 640, 480, 4.0), Parameters(fps=4.0)) == REFERENCE_TOKENS
