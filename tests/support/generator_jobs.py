"""Helpers of the generators' tests: parameters of small, quick generations, and checks of the output files."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import pytest

from cosmos_batch.catalogue.formats import Medium
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.result import GeneratorOutput
from cosmos_batch.media import VideoInfo, WantedVideo, check_video, exact_rate, probe

# NVIDIA's default negative prompt has 10,000 tokens with the tiny tokenizer, which takes a CPU seconds.
SHORT = {"negative_prompt": "Blur."}
SMALL = {"width": 64, "height": 48, "steps": 2}
FEW = {**SMALL, "num_frames": 9}
ACTIONS = {"domain_name": "bridge", "resolution": "256p", "action_chunk_size": 4, "steps": 2}
TABLE = {"mode": "transfer", "resolution": "256p", "aspect_ratio": "16:9", "steps": 2, "num_frames": 9}
ROWS = [[0.1] * 10] * 4
PROMPT = "A red cube rolls."


@dataclass(frozen=True)
class Files:
    """The result of a generation, and the folder with its files."""

    output: GeneratorOutput
    folder: Path

    def file(self, role: str) -> Path:
        return next(self.folder / one.name for one in self.output.files if one.role == role)

    @property
    def video(self) -> Path:
        return self.file("video")


def kind_of(medium: Path | None) -> Medium | None:
    if medium is None:
        return None
    return "image" if medium.suffix == ".png" else "video"


def refused(make: Callable[..., Any], *arguments: Any, **options: Any) -> Error:
    with pytest.raises(Failure) as raised:
        make(*arguments, **options)
    return raised.value.error


def check(path: Path, generation: Generation) -> None:
    """Check that the video has the generation's size, frame count, frame rate and sound."""
    assert generation.size and generation.num_frames and generation.fps
    check_video(
        path, WantedVideo(*generation.size, generation.num_frames, exact_rate(generation.fps), generation.sound)
    )


def video(path: Path) -> tuple[int, int, int, float, bool]:
    """Return width, height, frame count, frame rate, and whether there is sound, of an H.264 video."""
    info = probe(path)
    assert isinstance(info, VideoInfo) and info.codec == "h264"
    with av.open(str(path)) as container:
        sound = bool(container.streams.audio)
    return info.width, info.height, len(info.timeline.times), round(info.timeline.fps, 3), sound
