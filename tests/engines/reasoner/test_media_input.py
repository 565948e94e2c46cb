"""Several files in one request: the model sees all of them, in order, within one budget of tokens."""

import re
from itertools import groupby
from pathlib import Path

import pytest
from PIL import Image

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.reasoner.media_input import (
    MediaLimits,
    decode_inputs,
    probe_inputs,
)
from cosmos_batch.engines.reasoner.transformers.checkpoint import Checkpoint
from cosmos_batch.engines.reasoner.transformers.engine import TransformersEngine
from cosmos_batch.engines.reasoner.transformers.prompt import PreparedJob, prepare_inputs
from cosmos_batch.media import Clip
from tests.engines.conftest import make_job
from tests.support import media_files

MEDIA = {"<|image_pad|>": "image", "<|video_pad|>": "video"}


@pytest.fixture
def checkpoint(engine: TransformersEngine) -> Checkpoint:
    return engine._loaded()


def job_of(paths: list[Path], prompt: str = "What changed?", **parameters: object) -> Job:
    return make_job(paths[0].name, prompt, more=[path.name for path in paths[1:]], **parameters)


def prepared(checkpoint: Checkpoint, paths: list[Path], **parameters: object) -> PreparedJob:
    return prepare_inputs(checkpoint, job_of(paths, **parameters), paths, lambda: None)


def media_in(text: str) -> list[str]:
    """Return the kinds of media in a prompt; a clip appears once for each pair of its frames."""
    return [MEDIA[token] for token, _ in groupby(re.findall(r"<\|vision_end\|>|<\|\w+_pad\|>", text)) if token in MEDIA]


def test_the_model_sees_all_files_in_order(checkpoint: Checkpoint, clip: Path, picture: Path) -> None:
    for paths, seen in (
        ([picture, clip], ["image", *["video"] * 2]),
        ([clip, picture, clip], [*["video"] * 2, "image", *["video"] * 2]),
    ):
        job = prepared(checkpoint, paths, fps=1)
        text = checkpoint.processor.tokenizer.decode(job.inputs["input_ids"][0])
        assert media_in(text) == seen
        assert text.index("<|vision_end|>") < text.index("What changed?")


def test_pixels_of_several_images_are_in_order(checkpoint: Checkpoint, tmp_path: Path) -> None:
    paths = []
    for colour in ("red", "blue", "black"):
        paths.append(tmp_path / f"{colour}.png")
        Image.new("RGB", (64, 64), colour).save(paths[-1])
    pixels = prepared(checkpoint, paths).inputs["pixel_values"]
    red_of = pixels.reshape(3, -1, 3, pixels.shape[1] // 3).mean(dim=(1, 3))
    assert red_of.round().tolist() == [[1, -1, -1], [-1, -1, 1], [-1, -1, -1]]


def test_files_share_a_pixel_budget_and_small_files_leave_more_to_large_ones(
    checkpoint: Checkpoint, clip: Path, tmp_path: Path
) -> None:
    """NVIDIA's limit holds for all files together, and a file's size decides its share, not its position."""
    sight, small = MediaLimits.from_processor(checkpoint.processor), media_files.image(tmp_path / "small.png", 64, 64)
    tokens = 300

    def sizes(*paths: Path) -> list[int]:
        job = job_of(list(paths))
        seen = decode_inputs(sight, job, list(paths), probe_inputs(job, list(paths)), tokens, lambda: None, Journal())
        assert sum(map(sight.tokens, seen)) <= tokens
        return [one.frames.size if isinstance(one, Clip) else one.width * one.height for one in seen]

    alone, beside, behind = sizes(clip), sizes(clip, small), sizes(small, clip)
    twice = sizes(clip, clip)
    assert beside == behind[::-1]
    assert alone[0] * 0.8 < beside[0] <= alone[0]
    assert max(twice) < alone[0] * 0.8 and min(twice) > alone[0] * 0.3


def test_notes_log_lines_and_errors_name_the_file(checkpoint: Checkpoint, clip: Path, tmp_path: Path) -> None:
    minute = media_files.video(tmp_path / "minute.mp4", frames=600)
    job = prepared(checkpoint, [clip, minute], fps=10, prompt="robot " * 3000, maxTokens=100)
    [note] = [note for note in job.notes if note.startswith("minute.mp4: 60.0 s of video")]
    assert note in "\n".join(job.journal.lines)
    assert sum(bool(re.search(r"(clip|minute)\.mp4: video: .*seen:", line)) for line in job.journal.lines) == 2
    cut = media_files.mp4_without_its_end(tmp_path)
    with pytest.raises(Failure, match=r"^.*cut\.mp4: The video is truncated"):
        prepared(checkpoint, [clip, cut])


def test_more_files_than_fit_are_refused(checkpoint: Checkpoint, picture: Path) -> None:
    with pytest.raises(Failure) as refused:
        prepared(checkpoint, [picture] * 16, prompt="robot " * 4000)
    assert refused.value.error.code == "InvalidInput"


def test_a_part_of_an_image_that_is_named_as_a_video_is_refused(tmp_path: Path) -> None:
    path = media_files.png_named_mp4(tmp_path)
    with pytest.raises(Failure, match="start: an image has no time to cut"):
        probe_inputs(job_of([path], start=1.0), [path])
    assert probe_inputs(job_of([path]), [path])


def test_a_video_of_one_frame_is_shown_to_the_model(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """The processor of transformers refuses a clip of fewer frames than a token covers."""
    path = media_files.video(tmp_path / "still.mp4", frames=1)
    job = prepared(checkpoint, [path])
    text = checkpoint.processor.tokenizer.decode(job.inputs["input_ids"][0])
    assert media_in(text) == ["video"]
    assert job.frame_times == [0.0]
