"""The page in Chromium: finding documents, looking at one, and opening an export from a file."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
from PIL import ExifTags, Image
from playwright.sync_api import Browser, Page, expect

from cosmos_batch.console.static_export import StaticExport
from cosmos_batch.demo.media import sample_clip
from cosmos_batch.media import VideoInfo, frames_at_size, probe, upright_size
from cosmos_batch.media.displaying import displayed_image
from cosmos_batch.planning.answer_units import with_units
from tests.console.conftest import BUILD_CONSOLE
from tests.support import media_files
from tests.support.browser import chromium, needs_chromium, opened_view, serious, served, watched
from tests.support.console_documents import write_answer, write_failure, write_generation
from tests.support.drawn_boxes import bounds, drawn_box, picture, shown_area

pytestmark = needs_chromium

# How the pixels of a file differ from what is shown. Each of the first three combines several differences, which the
# others have one by one.
KINDS = ["rotated and non-square", "converted, rotated", "turned picture in HEIC"]
OTHER_KINDS = ["plain", "rotated", "upside down", "non-square", "turned picture"]

HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'

Visit = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Provide a function that serves a folder and opens it. In the end, no page may have complained or asked others."""
    complaints: list[str] = []
    with ExitStack() as stack:

        def visited(path: Path, **options: object) -> Page:
            url = stack.enter_context(served(path))
            return stack.enter_context(watched(browser, url, complaints, **options))

        yield visited
    assert not complaints


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a folder with three answers, a generation and an error; nothing is written to it."""
    path = tmp_path_factory.mktemp("documents")
    sample_clip(path / "clip.mp4")
    media_files.image(path / "red.png")
    events = [
        {"start": 0.5, "end": 2.0, "caption": "A red circle moves"},
        {"start": "00:02.50", "end": "00:03.50", "caption": "A blue square falls"},
        {"label": "circle", "bbox_2d": [100, 500, 300, 800], "time": 2.5},
        {"label": "square", "bbox_2d": [700, 200, 900, 400], "start": 0, "end": 1},
    ]
    seen = {"frameTimes": [0.0, 1.0, 2.0, 3.0], "reasoning": "It begins on the left.", "notes": ["It was thinned."]}
    write_answer(path / "1.json", timestamp="20260101-000001", data=events, **seen)
    write_answer(path / "2.json", timestamp="20260101-000002", userPrompt="Is it safe?", result="Yes, it is.")
    write_answer(
        path / "3.json", timestamp="20260101-000003", inputFile="red.png", data={"point_2d": [500, 250], "label": "red"}
    )
    write_generation(path / "4.json", ["clip.mp4"], timestamp="20260101-000004")
    write_failure(path / "5.json", "TimedOut", "It took too long.", timestamp="20260101-000005")
    return path


def test_finding_a_document_and_looking_at_it(visit: Visit, folder: Path) -> None:
    page = visit(folder)
    rows = page.locator("a.row")
    expect(rows).to_have_count(5)
    assert "token" not in page.url
    expect(page.locator("a.row img")).to_have_count(5)

    page.keyboard.press("/")
    page.keyboard.type("safe")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Yes, it is.")
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    expect(rows).to_have_count(5)

    page.get_by_role("button", name="Status").click()
    page.get_by_role("option", name="failed").click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("TimedOut")
    rows.first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="clip.mp4")).to_be_visible()
    expect(page.get_by_text("Export the file again.", exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    expect(rows).to_have_count(1)  # what was chosen stays chosen
    page.get_by_role("button", name="Status").click()
    page.get_by_role("option", name="Any status").click()

    page.get_by_role("button", name="Order").click()
    page.get_by_role("option", name="Oldest first").click()
    expect(rows.first).to_contain_text("2026-01-01 00:00:01")
    rows.first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(rows.nth(2)).to_be_focused()
    page.keyboard.press("Home")
    expect(rows.first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("video")).to_be_visible()


def test_documents_are_filtered_by_all_that_they_have(visit: Visit, tmp_path: Path) -> None:
    write_answer(
        tmp_path / "1.json",
        inputFile="a.mp4",
        data=[{"bbox_2d": [0, 0, 9, 9], "label": "dog", "score": 0.9}],
        timings={"generate": 2.0},
    )
    write_answer(tmp_path / "2.json", inputFile="b.mp4", model="other/model", data={"score": -0.2})
    write_failure(tmp_path / "3.json", "TimedOut", "It took too long.", "c.mp4")
    write_failure(tmp_path / "4.json", "InvalidInput", "It is damaged.", "d.mp4")
    page = visit(tmp_path)
    names = page.locator("a.row .title strong")
    expect(names).to_have_count(4)
    for label, option, every, matching in (
        ("Status", "succeeded", "Any status", ["a.mp4", "b.mp4"]),
        ("Error", "TimedOut", "Any error", ["c.mp4"]),
        ("Model", "other/model", "Any model", ["b.mp4"]),
        ("Label", "dog", "Any label", ["a.mp4"]),
    ):
        choose(page, label, option)
        expect(names).to_have_text(matching if len(matching) == 1 else sorted(matching, reverse=True))
        choose(page, label, every)
        expect(names).to_have_count(4)
    for label, number, name in (
        ("Seconds, at least", "3", "b.mp4"),
        ("Seconds, at most", "3", "a.mp4"),
        ("Score, at least", "0.5", "a.mp4"),
        ("Score, at most", "0.5", "b.mp4"),
        ("Score, at most", "-0.1", "b.mp4"),
    ):
        page.get_by_label(label).fill(number)
        expect(names).to_have_text([name])
        page.get_by_label(label).fill("")
        expect(names).to_have_count(4)
    for order, first in (("Slowest first", "b.mp4"), ("Greatest score first", "a.mp4"), ("By name", "a.mp4")):
        choose(page, "Order", order)
        expect(names.first).to_have_text(first)


def choose(page: Page, label: str, option: str) -> None:
    """Choose an option of a list."""
    page.get_by_role("button", name=label).click()
    page.get_by_role("option", name=option).first.click()


def test_the_page_of_an_item_shows_its_boxes_and_events(visit: Visit, folder: Path) -> None:
    page = open_item(visit(folder), 1)
    boxes = page.locator(".overlay rect")
    expect(boxes).to_have_count(1)
    assert page.locator("video").get_attribute("poster") is None, "the boxes of the first frame are drawn on it"
    page.get_by_role("button", name="A blue square falls").click()
    expect(page.locator(".event[aria-current]")).to_contain_text("A blue square falls")
    assert page.evaluate("document.querySelector('video').currentTime") == pytest.approx(2.5, abs=0.01)
    expect(page.locator(".overlay text")).to_have_text("circle")  # the square's box has ended by then
    reasoning = page.locator(".spoken", has_text="It begins on the left.")
    expect(reasoning).not_to_be_visible()
    page.get_by_role("button", name="Reasoning").click()
    expect(reasoning).to_be_visible()
    expect(page.get_by_text("It was thinned.").first).to_be_visible()
    page.get_by_role("button", name="The model saw 4 frames, one every 1.00 s").click()
    page.get_by_role("button", name="0:03.00", exact=True).click()
    expect(page.locator(".frames [aria-current]")).to_have_text("0:03.00")
    expect(page.get_by_text("4.20 s")).to_be_visible()
    page.get_by_role("button", name="Document").click()
    expect(page.locator("pre")).to_contain_text('"finishReason": "stop"')


def test_a_video_plays_and_its_boxes_follow(visit: Visit, folder: Path) -> None:
    """The square's box holds for the first second, and the circle's around 2.5 s."""
    page = open_item(visit(folder), 1)
    expect(page.locator(".overlay text")).to_have_text("square")
    page.evaluate("document.querySelector('video').play()")
    expect(page.locator(".overlay text")).to_have_count(0)
    page.wait_for_function("() => document.querySelector('video').ended")
    page.evaluate("document.querySelector('video').currentTime = 2.5")
    expect(page.locator(".overlay text")).to_have_text("circle")


def test_images_and_generations_are_shown(visit: Visit, folder: Path) -> None:
    page = open_item(visit(folder), 3)
    expect(page.locator(".overlay circle")).to_have_count(1)
    open_item(page, 4)
    expect(page.locator("video")).to_be_visible()
    expect(page.get_by_text("A robot pours water.", exact=True)).to_be_visible()


def open_item(page: Page, item: int) -> Page:
    page.locator(".filters, nav").first.wait_for()
    page.evaluate(f"location.hash = '#/item/{item}'")
    page.locator("h1", has_text=".").last.wait_for()
    return page


WIDTH, HEIGHT = 640, 320
TURNED = 6  # the EXIF orientation of a picture that has to be turned by 90 degrees


def white_rectangle(_: int) -> np.ndarray:
    """Return a gray frame with a white rectangle that looks different upside down or turned."""
    pixels = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
    pixels[32:160, 64:256] = 255
    return pixels


def write_rectangle(folder: Path, kind: str) -> Path:
    """Write a clip or picture that shows the rectangle."""
    if "picture" in kind:
        path, exif = folder / ("a.heic" if "HEIC" in kind else "a.jpg"), Image.Exif()
        exif[ExifTags.Base.Orientation] = TURNED
        pillow_heif.register_heif_opener()
        # As bytes: pillow-heif writes the rotation of a HEIC only from these.
        Image.fromarray(white_rectangle(0)).save(path, exif=exif.tobytes(), quality=95)
        return path
    if kind == "converted, rotated":
        return media_files.video(
            folder / "a.mov", frames=5, width=WIDTH, height=HEIGHT, paint=white_rectangle, rotation=90,
            codec="prores_ks", pixel_format="yuv422p10le",
        )  # fmt: skip
    rotation = {"rotated": 90, "upside down": 180, "rotated and non-square": 90}.get(kind)
    shape = Fraction(2) if "non-square" in kind else None
    return media_files.video(
        folder / "a.mp4", frames=5, width=WIDTH, height=HEIGHT, paint=white_rectangle, rotation=rotation,
        pixel_shape=shape,
    )  # fmt: skip


def seen_by_the_model(path: Path) -> np.ndarray:
    """Return the first frame, or the picture, in its own pixels, as a model gets it."""
    size, info = upright_size(path), probe(path)
    if isinstance(info, VideoInfo):
        return next(iter(frames_at_size(path, info.timeline, [0.0], size)))
    return displayed_image(path, size)


@pytest.mark.parametrize("kind", [*KINDS, *(pytest.param(kind, marks=pytest.mark.slow) for kind in OTHER_KINDS)])
def test_a_box_is_within_a_pixel_of_the_pixels_that_its_document_names(visit: Visit, tmp_path: Path, kind: str) -> None:
    """The document is that of a worker, and the rectangle lies there on the screen, where the box is drawn too."""
    path = write_rectangle(tmp_path, kind)
    size = upright_size(path)
    left, top, right, bottom = bounds(seen_by_the_model(path)[..., 0] > 170)
    thousandths = [round(1000 * side) for side in (left / size[0], top / size[1], right / size[0], bottom / size[1])]
    [answer] = with_units([{"label": "rectangle", "bbox_2d": thousandths}], size)
    write_answer(tmp_path / "a.json", inputFile=path.name, data=[answer])

    page = open_item(visit(tmp_path, device_scale_factor=4), 1)
    if "converted" in kind:
        page.get_by_role("button", name="Convert to play it here").click()
    expect(page.locator(".overlay rect")).to_have_count(1)
    area = shown_area(page)
    assert drawn_box(page, area, size) == pytest.approx(answer["bbox_pixels"], abs=1)
    of_rectangle = bounds(picture(page)[..., 0] > 170)
    assert area.pixels(of_rectangle, size) == pytest.approx(answer["bbox_pixels"], abs=1)


def test_a_video_that_browsers_do_not_play(visit: Visit, tmp_path: Path) -> None:
    media_files.video(tmp_path / "clip.avi")
    event = {"start": 2.0, "end": 3.0, "caption": "Here"}
    write_answer(tmp_path / "a.json", inputFile="clip.avi", data=event)
    page = open_item(visit(tmp_path), 1)
    expect(page.get_by_text("Cannot be played as it is: browsers do not play mpeg4")).to_be_visible()
    page.get_by_role("button", name="Convert to play it here").click()
    expect(page.get_by_text("Preview, converted without sound")).to_be_visible()
    page.get_by_role("button", name="Here").click()
    expect(page.locator(".event[aria-current]")).to_contain_text("Here")
    page.evaluate("document.querySelector('video').controls = false")
    level = float(picture(page)[200:400, 300:400].mean())
    assert level == pytest.approx(media_files.grey_at(20, 40), abs=4)


def test_hostile_text_is_text(visit: Visit, tmp_path: Path) -> None:
    name = "<img src=x onerror=window.hacked=1>.mp4"
    media_files.video(tmp_path / name, frames=5)
    write_answer(
        tmp_path / f"{HOSTILE.replace('/', '')}.json",
        inputFile=name,
        userPrompt=HOSTILE,
        result=HOSTILE,
        reasoning=HOSTILE,
        notes=[HOSTILE],
        model=HOSTILE,
        pipeline="javascript:alert(1)",
        timestamp=HOSTILE,
        data=[{"bbox_2d": [1, 1, 500, 500], "label": HOSTILE}],
        timings={HOSTILE: 1.0},
    )
    page = visit(tmp_path)
    expect(page.locator("a.row .answer")).to_have_text(HOSTILE)
    page.locator("a.row").click()
    expect(page.locator(".answered")).to_have_text(HOSTILE)
    expect(page.locator("h1", has_text=name)).to_be_visible()
    expect(page.locator(".overlay text")).to_contain_text("<img src=x")
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src=x]").count() == 0


def test_many_documents_can_be_scrolled_with_the_keyboard(visit: Visit, tmp_path: Path) -> None:
    for number in range(1500):
        write_answer(tmp_path / f"{number}.json", inputFile=f"{number:04}.mp4", timestamp=f"2026{number:04}")
    page = visit(tmp_path)
    expect(page.get_by_text("1,500 documents")).to_be_visible()
    expect(page.locator("a.row").first).to_contain_text("1499.mp4")
    page.locator("a.row").first.focus()
    page.keyboard.press("End")
    expect(page.locator("a.row").last).to_contain_text("0000.mp4")
    assert page.locator("li").count() <= 200
    page.locator("a.row").last.click()
    page.go_back()
    expect(page.locator("a.row").last).to_contain_text("0000.mp4")  # where the person was


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_axe_finds_nothing_serious(visit: Visit, folder: Path, axe: str, scheme: str) -> None:
    page = visit(folder, color_scheme=scheme)
    expect(page.locator("body.awsui-dark-mode")).to_have_count(int(scheme == "dark"))
    expect(page.locator("a.row")).to_have_count(5)
    findings = serious(page, axe)
    for item in (1, 3, 5):
        open_item(page, item)
        findings += serious(page, axe)
    assert not findings


def test_the_committed_page_is_built_from_the_committed_sources(built_page: Path) -> None:
    static = Path(__file__).resolve().parents[2] / "cosmos_batch" / "console" / "static"
    for path in built_page.iterdir():
        assert path.read_bytes() == (static / path.name).read_bytes(), f"{path.name} is old: make console"


@pytest.mark.slow
def test_the_sources_of_the_page_pass_their_checks(built_page: Path) -> None:
    """The compiler and the linter of TypeScript; `make console` runs them too, before it writes what is committed."""
    ran = subprocess.run([sys.executable, BUILD_CONSOLE, "--check"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_an_export_opens_from_a_file(browser: Browser, folder: Path, tmp_path: Path) -> None:
    with opened_view(folder) as view:
        StaticExport(view).write(tmp_path / "page", True, print)
    complaints: list[str] = []
    with watched(browser, (tmp_path / "page" / "index.html").as_uri(), complaints) as page:
        rows = page.locator("a.row")
        expect(rows).to_have_count(5)
        expect(page.locator("a.row img")).to_have_count(5)
        page.get_by_role("searchbox").fill("SAFE")
        expect(rows).to_have_count(1)
        page.get_by_role("searchbox").fill("")
        page.get_by_role("button", name="Label").click()
        page.get_by_role("option", name="circle").click()
        expect(rows).to_have_count(1)
        rows.first.click()
        page.get_by_role("button", name="A blue square falls").click()
        expect(page.locator(".event[aria-current]")).to_contain_text("A blue square falls")
        expect(page.locator(".overlay text")).to_have_text("circle")
    assert not complaints


def test_an_export_without_media_says_that_the_video_was_not_copied(
    browser: Browser, folder: Path, tmp_path: Path
) -> None:
    with opened_view(folder) as view:
        StaticExport(view).write(tmp_path / "page", False, print)
    complaints: list[str] = []
    with watched(browser, (tmp_path / "page" / "index.html").as_uri(), complaints) as page:
        page.locator("a.row", has_text="Yes, it is.").click()
        expect(page.get_by_text("export again with --media")).to_be_visible()
        expect(page.get_by_role("img", name="A frame of clip.mp4")).to_be_visible()
        expect(page.get_by_text("Cannot be played")).to_have_count(0)
    assert not complaints


def test_the_search_of_an_export_finds_what_that_of_the_console_finds(browser: Browser, tmp_path: Path) -> None:
    write_answer(tmp_path / "in" / "1.json", result="Straße")
    write_answer(tmp_path / "in" / "2.json", result="ΟΔΟΣ")
    write_answer(tmp_path / "in" / "3.json", result="ﬁlm İ")
    with opened_view(tmp_path / "in") as view:
        StaticExport(view).write(tmp_path / "page", False, print)
    exported = (tmp_path / "page" / "index.html").as_uri()
    with served(tmp_path / "in") as console:
        for url in (console, exported):
            with watched(browser, url, []) as page:
                expect(page.locator("a.row")).to_have_count(3)
                for searched, answer in (
                    ("straße", "Straße"), ("STRASSE", "Straße"), ("οδος", "ΟΔΟΣ"), ("Οδοσ", "ΟΔΟΣ"), ("FILM i̇", "ﬁlm İ")
                ):  # fmt: skip
                    page.get_by_role("searchbox").fill(searched)
                    expect(page.locator("a.row .answer")).to_have_text([answer])


def test_an_answer_that_is_no_json_is_named_by_its_status(browser: Browser, folder: Path) -> None:
    with served(folder) as url, watched(browser, url, []) as page:
        expect(page.locator("a.row")).to_have_count(5)
        page.route("**/rows?*", lambda route: route.fulfill(status=503, body="Service Unavailable"))
        page.get_by_role("searchbox").fill("safe")
        expect(page.get_by_text("The console has answered with status 503")).to_be_visible()
