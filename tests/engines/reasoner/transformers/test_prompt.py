"""The prompts that reach the model, read back from the processor's output."""

import re
from pathlib import Path

import numpy as np
import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.engines.reasoner import chat_request
from cosmos_batch.engines.reasoner.chat_request import CheckpointInfo
from cosmos_batch.engines.reasoner.media_input import MediaLimits
from cosmos_batch.engines.reasoner.transformers.checkpoint import Checkpoint
from cosmos_batch.engines.reasoner.transformers.engine import TransformersEngine
from cosmos_batch.engines.reasoner.transformers.prompt import PreparedJob, prepare_inputs
from tests.engines.conftest import make_job
from tests.support import media_files


@pytest.fixture
def checkpoint(engine: TransformersEngine) -> Checkpoint:
    return engine._loaded()


def prepared(checkpoint: Checkpoint, path: Path, **parameters: object) -> PreparedJob:
    return prepare_inputs(checkpoint, make_job(path.name, **parameters), [path], lambda: None)


def text_of(checkpoint: Checkpoint, job: PreparedJob) -> str:
    return str(checkpoint.processor.tokenizer.decode(job.inputs["input_ids"][0]))


@pytest.mark.parametrize(("fps", "pairs"), [(1.0, 2), (2.0, 4), (4.0, 8)])
def test_frames_reach_the_model_in_pairs(checkpoint: Checkpoint, clip: Path, fps: float, pairs: int) -> None:
    inputs = prepared(checkpoint, clip, fps=fps).inputs
    time, height, width = inputs["video_grid_thw"][0].tolist()
    assert time == pairs
    assert inputs["pixel_values_videos"].shape[0] == time * height * width


def test_frames_carry_their_time(checkpoint: Checkpoint, clip: Path) -> None:
    """Frames 0, 16, 31 and 47 of 48 at 12 fps are used; each pair has its mean time before its pixels."""
    text = text_of(checkpoint, prepared(checkpoint, clip, fps=1.0))
    assert "user\n<0.7 seconds><|vision_start|><|video_pad|>" in text
    assert "<|video_pad|><|vision_end|><3.2 seconds><|vision_start|>" in text
    assert "<|vision_end|><|vision_end|>" not in text


def test_the_answer_names_the_times_of_the_frames_that_were_seen(checkpoint: Checkpoint, clip: Path) -> None:
    assert prepared(checkpoint, clip, fps=1.0).frame_times == [0.0, 1.333, 2.583, 3.917]
    assert prepared(checkpoint, clip, fps=1.0, start=2.0).frame_times[0] >= 2.0, "in seconds of the whole clip"


def test_the_media_come_before_the_question(checkpoint: Checkpoint, clip: Path) -> None:
    text = text_of(checkpoint, prepared(checkpoint, clip))
    assert text.index("You are a helpful assistant.") < text.index("<|video_pad|>") < text.index("What happens?")


def test_pixels_are_not_scaled_a_second_time(checkpoint: Checkpoint, clip: Path) -> None:
    """The model sees frames at the size to which they were decoded."""
    job = prepared(checkpoint, clip)
    _, height, width = job.inputs["video_grid_thw"][0].tolist()
    assert any(f"frames of {width * 16} x {height * 16}" in line for line in job.journal.lines)


def test_colors_reach_the_model(checkpoint: Checkpoint, tmp_path: Path) -> None:
    grey = prepared(checkpoint, media_files.image(tmp_path / "red.png", 64, 64)).inputs["pixel_values"]
    channels = grey.reshape(grey.shape[0], 3, -1).mean(dim=(0, 2)).numpy()
    assert channels == pytest.approx(np.array([1.0, -1.0, -1.0]), abs=0.02)


def test_frames_shrink_where_few_tokens_are_left(checkpoint: Checkpoint, clip: Path) -> None:
    """Prompt and answer may leave few tokens; the job does not fail."""
    plain = prepared(checkpoint, clip)
    crowded = prepare_inputs(checkpoint, _crowded(clip), [clip], lambda: None)
    assert crowded.inputs["pixel_values_videos"].shape[0] < plain.inputs["pixel_values_videos"].shape[0]
    assert crowded.prompt_tokens + crowded.max_tokens <= checkpoint.context


def _crowded(clip: Path) -> Job:
    return make_job(clip.name, prompt="robot " * 3900, maxTokens=100)


def test_the_answer_never_goes_beyond_the_context(checkpoint: Checkpoint, clip: Path) -> None:
    job = prepared(checkpoint, clip, maxTokens=32_768)
    assert 1000 < job.max_tokens <= checkpoint.context - job.prompt_tokens


def test_the_budget_is_nvidias_rule(checkpoint: Checkpoint) -> None:
    """The rule is (context - max_tokens) * pixels per token * 0.9; a token of video is 32 x 32 pixels of two frames."""
    assert MediaLimits.from_processor(checkpoint.processor).video_budget(50).total == int(50 * 32 * 32 * 2 * 0.9)


def test_an_answer_shorter_than_max_tokens_has_a_note(checkpoint: Checkpoint, checkpoint_dir: Path, clip: Path) -> None:
    """The Transformers engine and the engines that send requests both add it, but not for the default."""
    reader = CheckpointInfo.from_folder(checkpoint_dir, checkpoint.context)
    for tokens, cut in ((32_768, True), (100, False), (None, False)):
        job = prepared(checkpoint, clip, maxTokens=tokens)
        sent = chat_request.prepare_request(reader, make_job(clip.name, maxTokens=tokens), [clip], lambda: None)
        assert job.notes == [f"maxTokens: {job.max_tokens:,} of 32,768 fit beside prompt and media."] * cut
        assert sent.notes == [f"maxTokens: {sent.body['max_tokens']:,} of 32,768 fit beside prompt and media."] * cut


@pytest.mark.parametrize(("seed", "expected"), [(None, 3407), (0, 0), (7, 7)])
def test_the_seed_is_the_requests_or_nvidias(
    checkpoint: Checkpoint, picture: Path, seed: int | None, expected: int
) -> None:
    assert prepared(checkpoint, picture, seed=seed).sampling.seed == expected


@pytest.fixture(scope="module")
def minute(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a minute of video at ten frames a second."""
    return media_files.video(tmp_path_factory.mktemp("media") / "minute.mp4", frames=600)


def test_a_part_of_a_video_is_seen(checkpoint: Checkpoint, minute: Path) -> None:
    lines = "\n".join(prepared(checkpoint, minute, start=20, end=30, fps=1).journal.lines)
    assert "seen: 10 frames" in lines


def test_timestamps_are_those_of_the_file(checkpoint: Checkpoint, minute: Path) -> None:
    job = prepared(checkpoint, minute, start=20, end=22, fps=2)
    times = [float(time) for time in re.findall(r"<(\d+\.\d) seconds>", text_of(checkpoint, job))]
    assert times and all(20 <= time < 22 for time in times)


def test_a_long_video_is_sampled_down_with_a_note_or_refused(checkpoint: Checkpoint, minute: Path) -> None:
    crowded = {"prompt": "robot " * 3900, "maxTokens": 100}
    job = prepare_inputs(checkpoint, make_job("minute.mp4", fps=10, **crowded), [minute], lambda: None)
    [note] = [one for one in job.notes if "are more than the" in one]
    assert note.startswith("60.0 s of video at 10 frames a second are more than the ")
    assert note in "\n".join(job.journal.lines)
    with pytest.raises(Failure, match="60.0 s of video") as refused:  # noqa: RUF043 - a sentence
        prepare_inputs(
            checkpoint, make_job("minute.mp4", fps=10, longVideo="refuse", **crowded), [minute], lambda: None
        )
    assert refused.value.error.code == "InvalidInput"
    whole = prepare_inputs(checkpoint, make_job("minute.mp4", fps=0.25, longVideo="refuse"), [minute], lambda: None)
    assert not [one for one in whole.notes if "are more than the" in one]
