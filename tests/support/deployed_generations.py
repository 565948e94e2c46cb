"""Requests to generators, and the checks that each kind of generated file must pass."""

import json
from dataclasses import dataclass, field
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from cosmos_batch.contract.generation.document import GeneratorDocument
from cosmos_batch.contract.generation.outputs import Role
from tests.support.mp4 import Mp4, read_mp4


@dataclass(frozen=True)
class ExpectedGeneration:
    """The parameters of one request, and the files that it must lead to.

    `video` is the width, height, number of frames and frame rate of the video; `actions` is the number of actions.
    """

    parameters: dict[str, Any]
    input: str | None = None
    video: tuple[int, int, int, Fraction] | None = (64, 48, 9, Fraction(24))
    actions: int | None = None
    others: tuple[Role, ...] = ("preview",)
    sound: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sound", bool(self.parameters.get("sound")))

    @property
    def roles(self) -> set[Role]:
        roles: set[Role] = {"image"} if self.parameters["mode"] == "t2i" else set()
        roles |= {"video", *self.others} if self.video else set()
        return roles | ({"actions"} if self.actions else set())


def check_video(path: Path, expected: ExpectedGeneration, _: GeneratorDocument) -> None:
    assert expected.video is not None
    mp4 = read_mp4(path)
    assert (mp4.codec, mp4.pix_fmt) == ("h264", "yuv420p")
    assert (mp4.width, mp4.height, mp4.frames, mp4.fps) == expected.video
    assert mp4.seconds == pytest.approx(mp4.frames / mp4.fps, abs=0.001)
    assert mp4.boxes.index("moov") < mp4.boxes.index("mdat"), "it plays before it is loaded"
    check_sound(mp4, expected)


def check_sound(mp4: Mp4, expected: ExpectedGeneration) -> None:
    assert mp4.sound == (("aac", 48_000, 2) if expected.sound else None)
    if expected.sound:
        assert mp4.sound_seconds == pytest.approx(mp4.seconds, abs=0.001), "cut to the video"


def check_image(path: Path, expected: ExpectedGeneration, _: GeneratorDocument) -> None:
    with Image.open(path) as image:
        image.load()
        image_format = "JPEG" if expected.parameters.get("imageFormat") == "jpeg" else "PNG"
        assert (image.format, image.size, image.mode) == (image_format, (64, 48), "RGB")


def check_actions(path: Path, expected: ExpectedGeneration, document: GeneratorDocument) -> None:
    assert document.generation.action is not None
    rows = json.loads(path.read_text())
    assert [len(row) for row in rows] == [document.generation.action.width] * (expected.actions or 0)


def check_preview(path: Path, _: ExpectedGeneration, document: GeneratorDocument) -> None:
    [video] = [file.file for file in document.files if file.role == "video"]
    assert path.name == f"{video}.previewFile.gif", "VAMS finds it by its name"
    with Image.open(BytesIO(path.read_bytes())) as image:
        assert (image.format, image.size) == ("GIF", document.generation.size)


def check_contact_sheet(path: Path, expected: ExpectedGeneration, _: GeneratorDocument) -> None:
    with Image.open(path) as image:
        image.load()
        assert expected.video is not None and image.format == "JPEG" and image.width > 4 * expected.video[0]


CHECKS = {
    "video": check_video,
    "image": check_image,
    "actions": check_actions,
    "preview": check_preview,
    "contactSheet": check_contact_sheet,
}
