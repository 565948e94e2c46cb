"""Benchmark of writing a generated video: x264 with our settings, and with its preset `medium` at CRF 17.

CPU seconds of all threads, which other programs on the machine change little.
"""

import statistics
import tempfile
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import av
import numpy as np

from benchmarks.generator.jobs import drawn_clip
from benchmarks.measurement import Measurement
from cosmos_batch.media import write_video, writing

RUNS = 5
SIZES, FRAMES = ("320x192", "832x480"), 189
RATE = Fraction(24)
MEDIUM = {**writing.QUALITY, "preset": "medium", "crf": "17"}
"""The settings until commit f7aa754f."""


def measure() -> list[Measurement]:
    """Write a drawn clip of each size with both settings in turn, after one pass that counts for neither."""
    with tempfile.TemporaryDirectory() as folder:
        return [_of(size, Path(folder) / "clip.mp4") for size in SIZES]


def _of(size: str, path: Path) -> Measurement:
    clip = drawn_clip(size, FRAMES)
    ways = {"ours": writing.QUALITY, "medium": MEDIUM}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    kilobytes, decibels = dict[str, int](), dict[str, float]()
    for name, quality in ways.items():  # the same frames make the same file each time
        _cpu_seconds(clip, path, quality)
        kilobytes[name] = path.stat().st_size // 1000
        decibels[name] = round(_peak_signal_to_noise(clip, path), 2)
    for _ in range(RUNS):
        for name, quality in ways.items():
            seconds[name].append(_cpu_seconds(clip, path, quality))
    ours, medium = (statistics.median(seconds[name]) for name in ways)
    return Measurement(
        name=f"{size}, {FRAMES} frames, `{writing.QUALITY['preset']}` at CRF {writing.QUALITY['crf']}",
        value=f"{ours:.2f} s of CPU, {ours / medium:.2f} of `medium` at CRF 17; {kilobytes['ours']} kB and "
        f"{decibels['ours']:.1f} dB, with that {kilobytes['medium']} kB and {decibels['medium']:.1f} dB",
        limit="none",
        met=True,
        raw={"seconds": seconds, "ofMedium": ours / medium, "kilobytes": kilobytes, "decibels": decibels},
    )


def _cpu_seconds(clip: Sequence[np.ndarray], path: Path, quality: dict[str, str]) -> float:
    with patch.object(writing, "QUALITY", quality):
        began = time.process_time()
        write_video(path, clip, RATE)
        return time.process_time() - began


def _peak_signal_to_noise(clip: Sequence[np.ndarray], path: Path) -> float:
    """Return how near the file is to what x264 was given, in decibels, over brightness and colors of all frames."""
    reformatter = av.video.reformatter.VideoReformatter()
    with av.open(str(path)) as container:
        errors = [
            np.square(seen.to_ndarray().astype(np.int32) - writing.yuv(pixels, reformatter).to_ndarray()).mean()
            for seen, pixels in zip(container.decode(video=0), clip, strict=True)
        ]
    return float(10 * np.log10(255**2 / np.mean(errors)))
