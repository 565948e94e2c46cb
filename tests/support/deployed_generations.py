"""What tests of generators ask for, and how each file that comes of it must be."""

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
class Asked:
    """One request, and what must come of it: width, height, frames and rate of the video, how many actions."""

    said: dict[str, Any]
    input: str | None = None
    video: tuple[int, int, int, Fraction] | None = (64, 48, 9, Fraction(24))
    actions: int | None = None
    others: tuple[Role, ...] = ("preview",)
    sound: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sound", bool(self.said.get("sound")))

    @property
    def roles(self) -> set[Role]:
        made: set[Role] = {"image"} if self.said["mode"] == "t2i" else set()
        made |= {"video", *self.others} if self.video else set()
        return made | ({"actions"} if self.actions else set())


def look_at_video(path: Path, asked: Asked, _: GeneratorDocument) -> None:
    assert asked.video is not None
    found = read_mp4(path)
    assert (found.codec, found.pix_fmt) == ("h264", "yuv420p")
    assert (found.width, found.height, found.frames, found.fps) == asked.video
    assert found.seconds == pytest.approx(found.frames / found.fps, abs=0.001)
    assert found.boxes.index("moov") < found.boxes.index("mdat"), "it plays before it is loaded"
    look_at_sound(found, asked)


def look_at_sound(found: Mp4, asked: Asked) -> None:
    assert found.sound == (("aac", 48_000, 2) if asked.sound else None)
    if asked.sound:
        assert found.sound_seconds == pytest.approx(found.seconds, abs=0.001), "cut to the video"


def look_at_image(path: Path, asked: Asked, _: GeneratorDocument) -> None:
    with Image.open(path) as image:
        image.load()
        wanted = "JPEG" if asked.said.get("imageFormat") == "jpeg" else "PNG"
        assert (image.format, image.size, image.mode) == (wanted, (64, 48), "RGB")


def look_at_actions(path: Path, asked: Asked, document: GeneratorDocument) -> None:
    assert document.generation.action is not None
    rows = json.loads(path.read_text())
    assert [len(row) for row in rows] == [document.generation.action.width] * (asked.actions or 0)


def look_at_preview(path: Path, _: Asked, document: GeneratorDocument) -> None:
    [video] = [one.file for one in document.files if one.role == "video"]
    assert path.name == f"{video}.previewFile.gif", "VAMS finds it by its name"
    with Image.open(BytesIO(path.read_bytes())) as image:
        assert (image.format, image.size) == ("GIF", document.generation.size)


def look_at_contact_sheet(path: Path, asked: Asked, _: GeneratorDocument) -> None:
    with Image.open(path) as image:
        image.load()
        assert asked.video is not None and image.format == "JPEG" and image.width > 4 * asked.video[0]


LOOKS = {
    "video": look_at_video,
    "image": look_at_image,
    "actions": look_at_actions,
    "preview": look_at_preview,
    "contactSheet": look_at_contact_sheet,
}
