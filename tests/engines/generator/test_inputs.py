"""A generator's input is what its content says, whatever its name."""

from pathlib import Path

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.generator.inputs import prepare
from cosmos_batch.engines.job_files import GenerationFiles
from tests.support import media_files
from tests.support.generations import settled


def test_an_image_that_is_named_as_a_video_is_not_continued(tmp_path: Path) -> None:
    generation = settled({"mode": "v2v"}, "video")
    files = GenerationFiles(media_files.png_named_mp4(tmp_path), {})
    with pytest.raises(Failure, match="input: is an image, and mode v2v starts from a video"):
        prepare(generation, files, lambda: None)


def test_a_video_of_one_frame_is_continued_and_an_animated_webp_begins_with_its_first_picture(tmp_path: Path) -> None:
    one_frame = media_files.video(tmp_path / "still.mp4", frames=1)
    first_latent_frame = settled({"resolution": "256p", "condition_frames": [0]}, "video")
    assert len(prepare(first_latent_frame, GenerationFiles(one_frame, {}), lambda: None).frames) == 1
    animation = media_files.animated_webp(tmp_path)
    begun = prepare(settled({"resolution": "256p"}, "image"), GenerationFiles(animation, {}), lambda: None)
    [first] = begun.frames
    assert first[0, 0, 0] > 200 and first[0, 0, 2] < 60, "it is red"
