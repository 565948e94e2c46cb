"""Benchmark of sampling a camera's clip: with and without the frames that no other frame refers to. And of probing it.

CPU seconds of all threads, which other programs on the machine change little.
"""

import statistics
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.measurement import Measurement
from benchmarks.reasoner.large_clips import PRESETS, make_large_clips
from cosmos_batch.catalogue.pixel_budget import PixelBudget
from cosmos_batch.media import VideoInfo, decoding, frame_sampling, probe, sample_frames
from cosmos_batch.media.signatures import Format

RUNS = 5
PROBING = 0.5  # limit: the time of probing relative to that with a frame decoded
FPS = 4
BUDGET = PixelBudget(40 * 768 * 768, 768 * 768, 32)


def measure() -> list[Measurement]:
    """Sample a clip of each preset of x264 both ways in turn, after one pass that counts for neither, and probe one."""
    with tempfile.TemporaryDirectory() as folder:
        clips = {preset: make_large_clips(Path(folder) / preset, 1, preset)[0] for preset in PRESETS}
        return [*(_of(preset, clip) for preset, clip in clips.items()), _of_probing(clips[PRESETS[0]])]


def _of(preset: str, clip: Path) -> Measurement:
    passes = [
        (_cpu_seconds(clip, frame_sampling.CODEC_WITH_REFERENCES), _cpu_seconds(clip, "")) for _ in range(RUNS + 1)
    ]
    (_, frames), (_, same) = passes[0]
    assert np.array_equal(frames, same), "the frames are the same"
    short, long = ([seconds for seconds, _ in way] for way in zip(*passes[1:], strict=True))
    ratio = statistics.median(long) / statistics.median(short)
    return Measurement(
        name=f"1920 x 1080, H.264 with x264's preset `{preset}`: {len(frames)} of 300 frames sampled",
        value=f"{statistics.median(short):.2f} s of CPU, {statistics.median(long):.2f} s with all frames decoded: "
        f"{ratio:.2f} times as fast",
        limit="none",
        met=True,
        raw={"left_out_seconds": short, "whole_seconds": long, "kilobytes": clip.stat().st_size // 1000},
    )


def _of_probing(clip: Path) -> Measurement:
    passes = [(_probing_milliseconds(clip, decoding.DESCRIBED), _probing_milliseconds(clip, ())) for _ in range(RUNS)]
    short, long = (statistics.median(way) for way in zip(*passes, strict=True))
    return Measurement(
        name=f"1920 x 1080, H.264 with x264's preset `{PRESETS[0]}`: the times of its 300 frames read",
        value=f"{short:.1f} ms of CPU, {long:.1f} ms where FFmpeg decodes to open it",
        limit=f"at most {PROBING:g} of that",
        met=short <= PROBING * long,
        raw={"milliseconds": passes},
    )


def _probing_milliseconds(clip: Path, described: tuple[Format, ...]) -> float:
    """Return the CPU time of probing, with these formats opened without decoding."""
    with patch.object(decoding, "DESCRIBED", described):
        began = time.process_time()
        probe(clip)
        return (time.process_time() - began) * 1000


def _cpu_seconds(clip: Path, codec: str) -> tuple[float, np.ndarray]:
    """Return the CPU time of sampling with frames of this codec left out, and the sampled frames."""
    info = probe(clip)
    assert isinstance(info, VideoInfo)
    with patch.object(frame_sampling, "CODEC_WITH_REFERENCES", codec):
        began = time.process_time()
        frames = sample_frames(clip, info, FPS, BUDGET, max_frames=768).frames
        return time.process_time() - began, frames
