"""Benchmark of sampling clips of 1920 x 1080 with the CPU's and with the GPU's decoder, without a model.

    python -m benchmarks.reasoner.gpu_decoding --work FOLDER [--clips 24] [--into FILE]

It compares the frames of both decoders, and times the parts of preparing a clip in one thread. Then it samples all
clips with the GPU's decoder, with all cores and with four, in four, five, six and eight threads. It needs a GPU with a
decoder for video. Results are written at the end.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.machine import circumstances
from benchmarks.reasoner.decoding import BUDGET, FPS
from benchmarks.reasoner.large_clips import make_large_clips
from benchmarks.reasoner.scaling import first_frames, in_one_step
from benchmarks.results import FOLDER
from cosmos_batch.media import Clip, VideoInfo, probe, sample_frames
from cosmos_batch.media.clip_files import SUFFIX, write_clip
from cosmos_batch.media.decoding import open_video
from cosmos_batch.media.frame_sampling import DECODED_BY_GPU
from cosmos_batch.media.frame_scaling import FrameScaler
from cosmos_batch.media.gpu_decoding import device_of_this_process

RESULT = FOLDER / "gpu-sampling.json"
THREADS = (4, 5, 6, 8)
FEW_CORES = 4
COMPARED = 4  # clips whose frames are compared


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reasoner.gpu_decoding", description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--clips", type=int, default=24)
    parser.add_argument("--into", type=Path, default=RESULT)
    return parser.parse_args(arguments)


def main() -> None:
    """Run the benchmark; the module's docstring has the options."""
    options = parse(sys.argv[1:])
    if device_of_this_process() is None:
        raise SystemExit("FFmpeg cannot decode video on a GPU here.")
    clips = make_large_clips(options.work / "clips-large", options.clips)
    results: dict[str, Any] = {**circumstances(), "clips": len(clips)}
    results |= {"frames": same_frames(clips[:COMPARED]), "phases": phases(clips[:COMPARED]), "rates": rates(clips)}
    options.into.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def same_frames(clips: list[Path]) -> dict[str, Any]:
    """Sample clips with both decoders, and return how many have the same frames to the last bit, and the seconds."""
    found: dict[str, Any] = {"clips": len(clips), "same": 0, "cpu": [], "gpu": []}
    for clip in clips:
        sampled = []
        for decoder in ("cpu", "gpu"):
            began = time.monotonic()
            sampled.append(_sample(clip, decoder))
            found[decoder].append(round(time.monotonic() - began, 3))
        exact, other = sampled
        assert DECODED_BY_GPU in other.notes, "the GPU decoded it"
        found["same"] += bool((exact.frames == other.frames).all())
    return found


def phases(clips: list[Path]) -> dict[str, float]:
    """Return the CPU seconds of a clip for each part of preparing it, decoded by the GPU, in the mean.

    All clips are prepared once before, without being timed.
    """
    for clip in clips:
        _phases(clip)
    found = [_phases(clip) for clip in clips]
    return {phase: round(fmean(one[phase] for one in found), 4) for phase in found[0]}


def _phases(clip: Path) -> dict[str, float]:
    """Return the CPU seconds of each part of preparing one clip.

    `openAndDecode` opens the file as if nothing were known of it. What is scaled are as many of its first frames as are
    sampled, which the CPU has decoded.
    """
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(phase: str) -> Iterator[None]:
        began = time.process_time()
        yield
        seconds[phase] = time.process_time() - began

    with timed("probe"):
        info = probe(clip)
    assert isinstance(info, VideoInfo)
    with timed("openAndDecode"), open_video(clip):
        pass
    with timed("open"), open_video(clip, reorder_depth=info.timeline.reorder_depth):
        pass
    with timed("sample"):
        sampled = _sample(clip, "gpu")
    with TemporaryDirectory() as folder, timed("write"):
        write_clip(sampled, Path(folder) / f"frames{SUFFIX}")
    count, height, width, _ = sampled.frames.shape
    frames = first_frames(clip, count)
    ways = {"scaleInOneStep": in_one_step(width, height), "scaleInTwoSteps": FrameScaler(width, height).pixels}
    for phase, scale in ways.items():
        with timed(phase):
            for frame in frames:
                scale(frame)
    return seconds


def rates(clips: list[Path]) -> list[dict[str, Any]]:
    """Sample all clips with the GPU's decoder, with all cores of this machine and with four."""
    cores, found = sorted(os.sched_getaffinity(0)), []
    try:
        for used in (cores, cores[:FEW_CORES]):
            os.sched_setaffinity(0, used)
            for threads in THREADS:
                one = {"cores": len(used), "threads": threads, **_rate(clips, threads)}
                print(one, file=sys.stderr, flush=True)
                found.append(one)
    finally:
        os.sched_setaffinity(0, cores)
    return found


def _rate(clips: list[Path], threads: int) -> dict[str, float]:
    """Return the CPU seconds of a clip, the clips a second, and after how many seconds the first one was there."""
    began, cpu = time.monotonic(), time.process_time()
    done: list[float] = []

    def sample(clip: Path) -> tuple[str, ...]:
        notes = _sample(clip, "gpu").notes
        done.append(time.monotonic() - began)
        return notes

    with ThreadPoolExecutor(threads) as pool:
        notes = list(pool.map(sample, clips))
    of_cores = time.process_time() - cpu
    assert all(DECODED_BY_GPU in one for one in notes), "the GPU decoded each clip"
    return {
        "cpuSecondsPerClip": round(of_cores / len(clips), 2),
        "perSecond": round(len(clips) / max(done), 2),
        "first": round(min(done), 2),
    }


def _sample(clip: Path, decoder: str) -> Clip:
    info = probe(clip)
    assert isinstance(info, VideoInfo)
    return sample_frames(clip, info, FPS, BUDGET, max_frames=768, on_gpu=decoder == "gpu")


if __name__ == "__main__":
    main()
