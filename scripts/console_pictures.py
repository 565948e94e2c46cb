"""Write the pictures of the console in `docs/pictures/`, from documents and runs over clips of the demo's world."""

import os
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from unittest.mock import patch

from PIL import Image
from playwright.sync_api import Page, ViewportSize, expect

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from cosmos_batch.cli.console import run_planner  # noqa: E402 - after the path is set
from cosmos_batch.cli.console.run_console import console_of_runs  # noqa: E402
from cosmos_batch.cli.stopped_clouds.lookup import RunDeployments  # noqa: E402
from cosmos_batch.demo.media import sample_clip, sample_image  # noqa: E402
from tests.support.browser import chromium, served, serving  # noqa: E402
from tests.support.console_documents import write_answer, write_failure, write_generation  # noqa: E402
from tests.support.console_runs import put_clips, put_runs  # noqa: E402
from tests.support.moto_deployment import moto_deployment  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
SIZE: ViewportSize = {"width": 1200, "height": 720}
COLORS = 128  # the number of colors in a picture's palette
ANSWER = [
    {"label": "red circle", "bbox_2d": [215, 487, 411, 747], "time": 1.0},
    {"label": "blue square", "bbox_2d": [746, 190, 906, 406], "time": 1.0},
    {"start": 0.5, "end": 2.0, "caption": "A red circle moves to the right."},
    {"start": 2.5, "end": 3.5, "caption": "A blue square falls to the ground."},
]


def main(target: Path = PICTURES) -> None:
    """Write all pictures."""
    target.mkdir(exist_ok=True)
    with chromium() as browser:
        page = browser.new_page(viewport=SIZE)
        take_pictures_of_folder(page, target)
        take_pictures_of_runs(page, target)


def take_pictures_of_folder(page: Page, target: Path) -> None:
    """Write the pictures of the list of documents, and of one document beside its clip."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "answers"
        folder.mkdir()
        write_documents(folder)
        with served(folder) as url:
            page.goto(url)
            expect(page.locator("a.row img")).to_have_count(6)
            save(page, target / "grid.png")
            page.locator("a.row", has_text="What happens, and when?").click()
            page.get_by_role("button", name="A red circle moves").click()
            page.evaluate("document.querySelector('video').currentTime = 1.001")
            expect(page.locator(".overlay rect")).to_have_count(2)
            page.evaluate("document.querySelector('video').controls = false")
            save(page, target / "item.png")


def take_pictures_of_runs(page: Page, target: Path) -> None:
    """Write the pictures of all runs, of one that goes on, of two side by side, and of a new one."""
    with patch.dict(os.environ, {"AWS_DEFAULT_REGION": "us-east-1"}), moto_deployment(None) as deployment:
        put_runs(deployment, put_clips(deployment))
        with (
            # The stand-in has no instances, quotas or model store that could be checked.
            patch.object(run_planner, "check_up", return_value=[]),
            console_of_runs(RunDeployments(deployment), "") as console,
            serving(console) as url,
        ):
            page.goto(url)
            page.set_viewport_size({"width": 1200, "height": 420})
            expect(page.locator(".runs tbody tr")).to_have_count(5)
            save(page, target / "runs.png")
            page.set_viewport_size({"width": 1200, "height": 800})
            page.get_by_role("link", name="yard-cameras").click()
            expect(page.locator(".workers li")).to_have_count(4)
            expect(page.locator("a.row img").first).to_be_visible()
            save(page, target / "live.png")
            page.evaluate("location.hash = '#/compare/docks-2b/docks-8b'")
            expect(page.locator(".compared img").first).to_be_visible()
            save(page, target / "compare.png")
            page.evaluate("location.hash = '#/new'")
            fill_form(page)
            save(page, target / "new.png")


def fill_form(page: Page) -> None:
    """Ask for the plan of a run over the clips in S3."""
    page.set_viewport_size({"width": 1200, "height": 1160})
    page.get_by_label("Or files in S3").fill("s3://assets/clips/")
    page.get_by_role("button", name="Task").click()
    page.locator("[data-value='temporal-localization']").click()
    page.get_by_label("Budget in dollars").fill("5")
    page.get_by_role("button", name="Show the plan and its price").click()
    page.get_by_role("button", name="Start 12 items").scroll_into_view_if_needed()


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


def save(page: Page, path: Path) -> None:
    """Write what the page shows as a PNG with a palette, which has a fifth of the size."""
    page.wait_for_timeout(500)  # animations end
    picture = Image.open(BytesIO(page.screenshot())).convert("RGB").quantize(COLORS)
    picture.save(path, optimize=True)


if __name__ == "__main__":
    main()
