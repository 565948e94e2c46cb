"""The benchmark of the GPU's decoder, run with the CPU's in its place."""

from pathlib import Path

import pytest

from benchmarks.reasoner import gpu_decoding as benchmark
from cosmos_batch.media import frame_sampling, gpu_decoding
from tests.support import media_files


@pytest.fixture
def clips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setattr(gpu_decoding, "LEAST_PIXELS", 1)
    monkeypatch.setattr(frame_sampling, "gpu_decoder", lambda: None)
    return [media_files.video(tmp_path / f"{number}.mp4", frames=40, width=72, height=40) for number in range(3)]


def test_frames_of_both_decoders_are_compared(clips: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    found = benchmark.same_frames(clips)
    assert (found["clips"], found["same"], len(found["cpu"]), len(found["gpu"])) == (3, 3, 3, 3)
    sample = benchmark._sample

    def with_other_frames(clip: Path, by: str) -> object:
        sampled = sample(clip, by)
        if by == "gpu" and clip == clips[1]:
            sampled.frames[0] += 1
        return sampled

    monkeypatch.setattr(benchmark, "_sample", with_other_frames)
    assert benchmark.same_frames(clips)["same"] == 2


def test_a_clip_that_the_gpu_did_not_decode_counts_for_nothing(
    clips: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_decoding, "LEAST_PIXELS", 1_000_000_000)
    with pytest.raises(AssertionError, match="the GPU decoded it"):
        benchmark.same_frames(clips)


def test_the_parts_of_preparing_a_clip_are_timed(clips: list[Path]) -> None:
    found = benchmark.phases(clips)
    parts = ["probe", "openAndDecode", "open", "sample", "write", "scaleInOneStep", "scaleInTwoSteps"]
    assert list(found) == parts and all(seconds > 0 for seconds in found.values())


def test_the_gpus_decoder_is_measured_with_all_cores_and_with_few(
    clips: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[list[int]] = []
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: set(range(16)))
    monkeypatch.setattr("os.sched_setaffinity", lambda _process, cores: used.append(sorted(cores)))
    rates = benchmark.rates(clips)
    assert [(one["cores"], one["threads"]) for one in rates] == [(c, t) for c in (16, 4) for t in (4, 5, 6, 8)]
    assert used == [list(range(16)), list(range(4)), list(range(16))], "and all cores again"
    assert all(one["perSecond"] > 0 and one["cpuSecondsPerClip"] >= 0 for one in rates)
    assert all(0 < one["first"] <= len(clips) / one["perSecond"] + 0.1 for one in rates)


def test_a_rate_of_the_gpu_is_not_that_of_the_cpu(clips: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_decoding, "LEAST_PIXELS", 1_000_000_000)
    with pytest.raises(AssertionError, match="the GPU decoded each clip"):
        benchmark.rates(clips)
