"""Write the pictures of the console in `docs/pictures/`: the list of documents, and one document beside its clip."""

import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from cosmos_batch.demo.media import sample_clip, sample_image  # noqa: E402 - after the path is set
from tests.support.browser import chromium, served  # noqa: E402
from tests.support.console_documents import write_answer, write_failure, write_generation  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
COLORS = 128  # of a picture's palette
ANSWER = [
    {"label": "red circle", "bbox_2d": [215, 487, 411, 747], "time": 1.0},
    {"label": "blue square", "bbox_2d": [746, 190, 906, 406], "time": 1.0},
    {"start": 0.5, "end": 2.0, "caption": "A red circle moves to the right."},
    {"start": 2.5, "end": 3.5, "caption": "A blue square falls to the ground."},
]


def main() -> None:
    """Write both pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "answers"
        folder.mkdir()
        write_documents(folder)
        with served(folder) as url, chromium() as browser:
            page = browser.new_page(viewport={"width": 1200, "height": 720})
            page.goto(url)
            expect(page.locator("a.row img")).to_have_count(6)
            save(page, "grid")
            page.locator("a.row", has_text="What happens, and when?").click()
            page.get_by_role("button", name="A red circle moves").click()
            page.evaluate("document.querySelector('video').currentTime = 1.001")
            expect(page.locator(".overlay rect")).to_have_count(2)
            page.evaluate("document.querySelector('video').controls = false")
            save(page, "item")


def write_documents(folder: Path) -> None:
    """Write documents of each kind, with their media."""
    for name in ("clip.mp4", "robot.mp4", "night.mp4", "yard.mp4"):
        sample_clip(folder / name)
    sample_image(folder / "shapes.png")
    seen = {"frameTimes": [number / 4 for number in range(16)], "reasoning": "The circle is on the left at first."}
    write_answer(folder / "1.json", data=ANSWER, result="A red circle moves, then a blue square falls.", **seen)
    write_answer(folder / "2.json", inputFile="yard.mp4", userPrompt="Is anybody in danger?", result="No, nobody is.")
    point = {"point_2d": [490, 612], "label": "red circle"}
    write_answer(
        folder / "3.json", inputFile="shapes.png", userPrompt="Where is the circle?", result="Here.", data=point
    )
    write_generation(folder / "4.json", ["robot.mp4"])
    write_generation(folder / "5.json", ["night.mp4"], generation={"mode": "transfer", "prompt": "The same, at night."})
    write_failure(folder / "6.json", "InvalidInput", "The video is truncated or damaged at 3.2 s.", "clip.mp4")


def save(page: Page, name: str) -> None:
    """Write what the page shows as a PNG with a palette, which has a fifth of the size."""
    page.wait_for_timeout(500)  # animations end
    picture = Image.open(BytesIO(page.screenshot())).convert("RGB").quantize(COLORS)
    picture.save(PICTURES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
