"""The page in Chromium: finding documents, looking at one, and opening an export from a file."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from cosmos_batch.console.static_export import StaticExport
from cosmos_batch.demo.media import sample_clip
from cosmos_batch.media import VideoInfo, frames_at_size, probe, upright_size
from tests.support import media_files
from tests.support.browser import chromium, needs_chromium, opened_view, served
from tests.support.console_documents import write_answer, write_failure, write_generation

pytestmark = needs_chromium

SIZE = {"width": 1200, "height": 800}
SECONDS = 60_000  # milliseconds that an expectation may take on a busy machine
expect.set_options(timeout=SECONDS)
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


@contextmanager
def watched(browser: Browser, url: str, complaints: list[str], **options: object) -> Iterator[Page]:
    """Open a URL, and collect errors of the page and requests to other places than where it lies."""
    home = url.split("#")[0].removesuffix("index.html")
    # Without motion, because axe would read the colors of a transition that is under way.
    context = browser.new_context(viewport=SIZE, reduced_motion="reduce", **options)  # type: ignore[arg-type]
    context.set_default_timeout(SECONDS)
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on("request", lambda one: None if one.url.startswith((home, "data:", "blob:")) else complaints.append(one.url))
    page.goto(url)
    yield page
    context.close()


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


def test_the_page_of_an_item_shows_its_boxes_and_events(visit: Visit, folder: Path) -> None:
    page = open_item(visit(folder), 1)
    boxes = page.locator(".overlay rect")
    expect(boxes).to_have_count(1)
    page.get_by_role("button", name="A blue square falls").click()
    expect(page.locator(".event[aria-current]")).to_contain_text("A blue square falls")
    assert page.evaluate("document.querySelector('video').currentTime") == pytest.approx(2.5, abs=0.01)
    expect(page.locator(".overlay text")).to_have_text("circle")  # the square's box has ended by then
    reasoning = page.locator(".spoken", has_text="It begins on the left.")
    expect(reasoning).not_to_be_visible()
    page.get_by_role("button", name="Reasoning").click()
    expect(reasoning).to_be_visible()
    expect(page.get_by_text("It was thinned.").first).to_be_visible()
    page.get_by_role("button", name="The model saw 4 frames, one each 1.00 s").click()
    page.get_by_role("button", name="0:03.00", exact=True).click()
    expect(page.locator(".frames [aria-current]")).to_have_text("0:03.00")
    expect(page.get_by_text("4.20 s")).to_be_visible()
    page.get_by_role("button", name="Document").click()
    expect(page.locator("pre")).to_contain_text('"finishReason": "stop"')


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


WIDTH, HEIGHT = 200, 100


def white_rectangle(_: int) -> np.ndarray:
    """Return a black frame with a white rectangle that looks different upside down or turned."""
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    pixels[10:50, 20:80] = 255
    return pixels


def non_square(path: Path) -> Path:
    """Write a video whose pixels are twice as wide as high."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.sample_aspect_ratio = 2
        for index in range(5):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(white_rectangle(index), format="rgb24")))
        container.mux(stream.encode())
    return path


@pytest.mark.parametrize("kind", ["plain", "rotated", "upside down", "non-square"])
def test_a_box_is_where_it_belongs(visit: Visit, tmp_path: Path, kind: str) -> None:
    """The box that fits the frame as the model sees it fits the frame as the browser shows it."""
    path = tmp_path / "clip.mp4"
    rotation = {"plain": None, "rotated": 90, "upside down": 180}
    if kind == "non-square":
        non_square(path)
    else:
        video = {"frames": 5, "width": WIDTH, "height": HEIGHT, "paint": white_rectangle}
        media_files.video(path, rotation=rotation[kind], **video)  # type: ignore[arg-type]
    info = probe(path)
    assert isinstance(info, VideoInfo)
    width, height = upright_size(path)
    (seen,) = frames_at_size(path, info.timeline, [0.0], (width, height))
    left, top, right, bottom = bounds(seen[..., 0] > 127)
    sides = [left / width, top / height, right / width, bottom / height]
    write_answer(tmp_path / "a.json", data={"label": "", "bbox_2d": [round(1000 * side) for side in sides]})

    page = open_item(visit(tmp_path), 1)
    page.evaluate("document.querySelector('video').controls = false")
    expect(page.locator(".overlay rect")).to_have_count(1)
    page.evaluate(
        "new Promise((done) => { const video = document.querySelector('video');"
        "video.readyState >= 2 ? done() : video.addEventListener('loadeddata', done); })"
    )
    overlay, video_element = "document.querySelector('.overlay')", "document.querySelector('video')"
    page.evaluate(f"{overlay}.style.visibility = 'hidden'")
    shown = picture(page)
    assert shown[..., 0].max() > 200, "the frame is shown"
    page.evaluate(f"{overlay}.style.visibility = 'visible'; {video_element}.style.visibility = 'hidden'")
    drawn = picture(page)
    of_frame = np.array(bounds(shown[..., 0] > 127))
    inwards = np.array([1, 1, -1, -1])  # the line is two pixels wide, half of it outside
    of_box = np.array(bounds(drawn[..., 0] > 127)) + inwards
    one_pixel = page.evaluate(f"{overlay}.clientHeight") / height
    assert np.abs(of_frame - of_box).max() <= one_pixel, (of_frame, of_box, one_pixel)


def picture(page: Page) -> np.ndarray:
    """Return the pixels of the player."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return np.asarray(Image.open(BytesIO(page.locator(".stage").screenshot())).convert("RGB"))


def bounds(mask: np.ndarray) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of what is set."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


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
    name = "<img src=x onerror=window.hacked=1>.png"
    media_files.image(tmp_path / name)
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


def serious(page: Page, axe: str) -> list[str]:
    page.evaluate(axe)
    found = page.evaluate("axe.run()")["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in ("serious", "critical")]


def test_the_committed_page_is_built_from_the_committed_sources(built_page: Path) -> None:
    static = Path(__file__).resolve().parents[2] / "cosmos_batch" / "console" / "static"
    for path in built_page.iterdir():
        assert path.read_bytes() == (static / path.name).read_bytes(), f"{path.name} is old: make console"


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
