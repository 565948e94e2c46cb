"""Files such as people have are all read, whatever wrote and named them."""

import os
from pathlib import Path

import pytest

from cosmos_batch.catalogue.formats import EXTENSIONS, extension
from cosmos_batch.catalogue.pixel_budget import PixelBudget
from cosmos_batch.media import ImageInfo, VideoInfo, probe, read_image, sample_frames
from tests.support import everyday_files
from tests.support.everyday_files import IMAGES, VIDEOS, Maker

BUDGET = PixelBudget(128 * 128 * 8, 128 * 128, 32)


@pytest.mark.parametrize("make", VIDEOS.values(), ids=VIDEOS)
def test_every_video_is_read(tmp_path: Path, make: Maker) -> None:
    path = make(tmp_path)
    info = probe(path)
    assert extension(path.name) in EXTENSIONS
    assert isinstance(info, VideoInfo)
    clip = sample_frames(path, info, 4, BUDGET, max_frames=8)
    assert 1 <= len(clip.frames) <= 8 and clip.frames.shape[3] == 3


@pytest.mark.parametrize("make", IMAGES.values(), ids=IMAGES)
def test_every_image_is_read(tmp_path: Path, make: Maker) -> None:
    path = make(tmp_path)
    assert extension(path.name) in EXTENSIONS
    assert isinstance(probe(path), ImageInfo)
    assert read_image(path, BUDGET).mode == "RGB"


def test_the_encoder_of_av1_leaves_the_threads_scheduling_as_it_was(tmp_path: Path) -> None:
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    everyday_files.av1_mp4(tmp_path)
    assert (os.sched_getscheduler(0), os.sched_getparam(0)) == before
