"""Marks come out at their place and time on contact sheets and overlays, on rotated media too."""

import copy
import warnings
import weakref
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import ExifTags, Image

from cosmos_batch.media import VideoInfo, displayed_frames, probe
from cosmos_batch.media.writing import write_video
from cosmos_batch.viewing.answer_sheet import AnswerSheet, write_answer_sheet
from cosmos_batch.viewing.drawing import draw_marks, font_families, font_notes, missing_characters
from cosmos_batch.viewing.marks import Box, Event, Marks, TimeSpan
from cosmos_batch.viewing.overlay import overlay_suffix, write_overlay
from tests.support import media_files

GREY = 128
GREY_FRAME = np.full((64, 96, 3), GREY, np.uint8)
HOSTILE = (
    "$x_",
    "\\frac{",
    "a" * 5000,
    "línea\nzwei",
    "日本",
    "\0",
    "\ud800",
    "\x1b[2J",
    "\u202eabc",
    "e" + "\u0301" * 60,
)
LEFT_HALF = Box(0.0, 0.0, 0.5, 1.0, "")


def changed(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return at which pixels two pictures differ by more than encoding changes them: bool, [height, width]."""
    return np.abs(before.astype(int) - after.astype(int)).max(axis=-1) > 40


def test_a_box_is_drawn_where_it_says() -> None:
    picture = np.full((200, 400, 3), GREY, np.uint8)
    drawn = changed(picture, draw_marks(picture, Marks((Box(0.25, 0.25, 0.5, 0.75, ""),))))
    rows, columns = np.nonzero(drawn)
    assert abs(columns.min() - 100) < 5
    assert abs(columns.max() - 200) < 5
    assert abs(rows.min() - 50) < 5
    assert abs(rows.max() - 150) < 5
    assert not drawn[60:140, 110:190].any(), "a box is an outline"


def test_a_label_cannot_break_the_drawing() -> None:
    picture = np.full((100, 100, 3), GREY, np.uint8)
    for label in HOSTILE:
        assert "\x1b" not in missing_characters(label), "a terminal would obey it"
        assert draw_marks(picture, Marks((Box(0.1, 0.1, 0.9, 0.9, label),))).shape == picture.shape


def clip(path: Path, frames: int = 20) -> Path:
    write_video(path, (GREY_FRAME for _ in range(frames)), Fraction(10))
    return path


def frames_of(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def test_an_event_is_shown_on_the_frames_of_its_time(tmp_path: Path) -> None:
    source = clip(tmp_path / "a.mp4")
    write_overlay(source, Marks(events=(Event(TimeSpan(1.0, 1.2), "It falls."),)), tmp_path / "out.mp4")
    shown = [bool(changed(np.full_like(frame, GREY), frame).any()) for frame in frames_of(tmp_path / "out.mp4")]
    assert len(shown) == 20
    assert shown[10]
    assert not shown[0]
    assert not shown[19]


def test_an_overlay_of_a_video_keeps_frames_rate_and_size(tmp_path: Path) -> None:
    source = clip(tmp_path / "a.mp4")
    write_overlay(source, Marks((LEFT_HALF,)), tmp_path / f"a{overlay_suffix(source)}")
    before, after = probe(source), probe(tmp_path / "a.overlay.mp4")
    assert isinstance(before, VideoInfo)
    assert isinstance(after, VideoInfo)
    assert (after.width, after.height, after.timeline.fps) == (before.width, before.height, before.timeline.fps)
    assert len(after.timeline.times) == len(before.timeline.times)


def test_marks_follow_the_picture_as_it_is_seen(tmp_path: Path) -> None:
    """A phone stores an upright photograph on its side and says so; the model sees it upright."""
    lying = Image.new("RGB", (80, 40), (GREY, GREY, GREY))
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    lying.save(tmp_path / "photo.jpg", exif=exif)
    write_overlay(tmp_path / "photo.jpg", Marks((LEFT_HALF,)), tmp_path / "photo.overlay.png")
    with Image.open(tmp_path / "photo.overlay.png") as overlay:
        assert overlay.size == (40, 80)
        drawn = changed(np.full((80, 40, 3), GREY, np.uint8), np.asarray(overlay.convert("RGB")))
    assert drawn[40, 15:25].any(), "the right side of the left half is a line down the middle"
    assert not drawn[40, 30:].any()


@pytest.mark.parametrize(
    ("shape", "rotation", "size"),
    [
        (Fraction(2), None, (192, 64)),
        (Fraction(1, 2), None, (48, 64)),
        (None, 90, (64, 96)),
        (Fraction(2), 90, (64, 192)),
        (Fraction(1000), None, (96, 64)),
    ],
)
def test_an_overlay_has_the_shape_that_a_player_shows(
    shape: Fraction | None, rotation: int | None, size: tuple[int, int], tmp_path: Path
) -> None:
    """Pixels that are not square are stretched to squares, as a player does, and nothing is cropped."""
    source = media_files.video(
        tmp_path / "a.mp4",
        frames=3,
        width=96,
        height=64,
        paint=lambda _: GREY_FRAME,
        pixel_shape=shape,
        rotation=rotation,
    )
    write_overlay(source, Marks((LEFT_HALF,)), tmp_path / "out.mp4")
    frame = frames_of(tmp_path / "out.mp4")[0]
    height, width, _ = frame.shape
    assert (width, height) == size
    drawn = changed(np.full_like(frame, GREY), frame)[height // 2]
    middle = np.flatnonzero(drawn[5:]) + 5
    assert abs(middle.mean() - width / 2) < 3, "the right side of the left half is a line down the middle"


def test_frames_that_come_unevenly_are_shown_at_their_times(tmp_path: Path) -> None:
    """A phone films at a varying rate. A frame that stands for a second in the clip does so in the overlay."""
    times = [*range(5), *range(15, 20)]
    source = media_files.video(
        tmp_path / "a.mp4", frames=10, width=96, height=64, paint=lambda _: GREY_FRAME, pts=lambda index: times[index]
    )
    write_overlay(source, Marks(events=(Event(TimeSpan(1.6, 1.7), "It falls."),)), tmp_path / "out.mp4")
    info = probe(tmp_path / "out.mp4")
    assert isinstance(info, VideoInfo)
    assert info.timeline.duration == pytest.approx(2.0, abs=0.3)
    shown = [bool(changed(np.full_like(frame, GREY), frame).any()) for frame in frames_of(tmp_path / "out.mp4")]
    first = float(info.timeline.times[shown.index(True)])
    assert 0.5 < first < 1.7
    assert shown[-1]
    assert not shown[0]


def test_frames_of_a_long_video_are_drawn_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[weakref.ref[np.ndarray]] = []
    most = 0

    def watched(*arguments: object) -> Iterator[np.ndarray]:
        nonlocal most
        for frame in displayed_frames(*arguments):
            alive.append(weakref.ref(frame))
            most = max(most, sum(reference() is not None for reference in alive))
            yield frame

    monkeypatch.setattr("cosmos_batch.viewing.overlay.displayed_frames", watched)
    write_overlay(clip(tmp_path / "a.mp4", 60), Marks((LEFT_HALF,)), tmp_path / "out.mp4")
    assert len(alive) == 60
    assert most <= 3


def test_a_sheet_shows_the_frames_that_the_model_saw(tmp_path: Path) -> None:
    """A box at 0.5 s changes the sheet, and one at 1.5 s does not, because no frame of that time is on it."""
    source = clip(tmp_path / "a.mp4")

    def sheet(marks: Marks) -> np.ndarray:
        target = tmp_path / "sheet.png"
        write_answer_sheet(AnswerSheet(source, "An answer.", marks, seen=(0.0, 0.5)), target)
        with Image.open(target) as image:
            return np.asarray(image)

    plain = sheet(Marks())
    seen = sheet(Marks((Box(0.2, 0.2, 0.8, 0.8, "", TimeSpan(0.5, 0.5)),)))
    unseen = sheet(Marks((Box(0.2, 0.2, 0.8, 0.8, "", TimeSpan(1.5, 1.5)),)))
    half = plain.shape[1] // 2
    assert np.array_equal(plain, unseen)
    assert np.array_equal(plain[:, :half], seen[:, :half]), "the first frame has no box"
    assert not np.array_equal(plain[:, half:], seen[:, half:])


def test_a_sheet_has_a_timeline_where_there_are_events(tmp_path: Path) -> None:
    source = clip(tmp_path / "a.mp4")
    heights = []
    first, second = Event(TimeSpan(0.2, 1.0), "one"), Event(TimeSpan(1.0, 1.5), "two")
    for events in ((), (first,), (first, second)):
        write_answer_sheet(AnswerSheet(source, "An answer.", Marks(events=events)), tmp_path / "sheet.png")
        with Image.open(tmp_path / "sheet.png") as image:
            heights.append(image.height)
    assert heights == sorted(set(heights))


def test_a_note_names_characters_that_no_font_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cosmos_batch.viewing.drawing.font_families", lambda: ["DejaVu Sans"])
    assert missing_characters("Zwölf Kästen, двенадцать ящиков, δώδεκα") == ""
    assert missing_characters("箱 and 箱") == "箱"
    image = tmp_path / "a.png"
    Image.new("RGB", (40, 40)).save(image)
    [note] = write_answer_sheet(AnswerSheet(image, "箱", Marks()), tmp_path / "sheet.png")
    assert "箱" in note
    assert "fonts-noto-cjk" in note


@pytest.mark.parametrize(
    ("answer", "package"),
    [
        ("A red box, Москва, δώδεκα", None),
        ("صندوق أحمر", None),
        ("赤い箱", "sudo apt install fonts-noto-cjk;"),
        ("빨간 상자", "sudo apt install fonts-noto-cjk;"),
        ("लाल डिब्बा", "sudo apt install fonts-noto-core;"),
        ("赤 लाल 🦾", "sudo apt install fonts-noto-cjk fonts-noto-core fonts-symbola;"),
    ],
)
def test_every_script_is_drawn_or_its_font_is_named(
    answer: str, package: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only matplotlib's own font is installed here; a note names the package with a font for what it lacks."""
    monkeypatch.setattr("cosmos_batch.viewing.drawing.font_families", lambda: ["DejaVu Sans"])
    with warnings.catch_warnings(record=True) as missing:
        warnings.simplefilter("always")
        figure = Figure()
        figure.text(0, 0, answer, family="DejaVu Sans")
        FigureCanvasAgg(figure).draw()
    assert bool(missing) == (package is not None), "matplotlib warns of each box that it draws"
    assert [package in note for note in font_notes(answer)] == ([True] if package else [])


def test_fonts_that_were_installed_later_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """matplotlib lists the fonts once, and keeps its list in a file."""
    installed = tmp_path / "NotoTest.ttf"
    installed.write_bytes(Path(font_manager.findfont("DejaVu Sans")).read_bytes())
    manager = copy.deepcopy(font_manager.fontManager)
    monkeypatch.setattr(font_manager, "fontManager", manager)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [str(installed), str(tmp_path / "broken.ttf")])
    font_families.cache_clear()
    font_families()
    font_families.cache_clear()
    assert str(installed) in {font.fname for font in manager.ttflist}


def test_a_sheet_tells_how_many_frames_it_leaves_out(tmp_path: Path) -> None:
    """The model may have seen hundreds: the sheet has 64 of them, smaller ones than otherwise, and says so."""
    source = clip(tmp_path / "a.mp4", 80)
    sizes = {}
    for count in (16, 64, 80):
        seen = tuple(number / 10 for number in range(count))
        write_answer_sheet(AnswerSheet(source, "An answer.", Marks(), seen=seen), tmp_path / "sheet.png")
        with Image.open(tmp_path / "sheet.png") as image:
            sizes[count] = image.size
    assert sizes[16][0] == sizes[64][0] == sizes[80][0]
    assert sizes[80][1] - sizes[64][1] in range(15, 30), "a line of text"


@pytest.mark.parametrize("end", [5.0, 1e300])
def test_an_event_that_ends_after_the_clip_leaves_the_timeline_readable(end: float, tmp_path: Path) -> None:
    source = clip(tmp_path / "a.mp4")
    write_answer_sheet(
        AnswerSheet(source, "An answer.", Marks(events=(Event(TimeSpan(0.0, end), "x"),))), tmp_path / "sheet.png"
    )
    with Image.open(tmp_path / "sheet.png") as image:
        assert image.width == 1440
