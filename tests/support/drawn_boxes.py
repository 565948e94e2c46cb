"""Where the console's page draws a box on a picture or frame, measured on the pixels of screenshots."""

from dataclasses import dataclass
from io import BytesIO
from typing import NamedTuple

import numpy as np
from PIL import Image
from playwright.sync_api import Page

_BLACK = 40  # the greatest level of what is black on a screenshot, as the page is around a picture
_LINE = 2  # CSS pixels of a box's line, half of them outside of the box


class Bounds(NamedTuple):
    """Left, top, right and bottom of an area."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class ShownArea:
    """The area of a screenshot that a picture or frame takes."""

    bounds: Bounds

    def pixels(self, place: Bounds, size: tuple[int, int]) -> list[float]:
        """Return a place on the screenshot in pixels of the picture, which has this width and height."""
        left, top, right, bottom = self.bounds
        across, down = size[0] / (right - left), size[1] / (bottom - top)
        return [
            (place.left - left) * across,
            (place.top - top) * down,
            (place.right - left) * across,
            (place.bottom - top) * down,
        ]


def shown_area(page: Page) -> ShownArea:
    """Return where the page shows a frame of a document's video, or its image, which must not be black at its edges.

    The controls, the poster, the marks and the round corners, behind which the page shines, are gone from now on.
    """
    page.locator(".overlay").wait_for()
    page.evaluate(
        """async () => {
          document.querySelector(".stage").style.borderRadius = "0";
          document.querySelector(".overlay").style.visibility = "hidden";
          const shown = document.querySelector(".stage video, .stage img");
          if (!(shown instanceof HTMLVideoElement)) return shown.decode();
          shown.controls = false;
          shown.removeAttribute("poster");
          await new Promise((done) => {
            shown.requestVideoFrameCallback(done);
            shown.currentTime = 0.25;
          });
        }"""
    )
    return ShownArea(bounds(picture(page).max(axis=-1) > _BLACK))


def drawn_box(page: Page, area: ShownArea, size: tuple[int, int]) -> list[float]:
    """Return the sides of the first box that the page draws, in pixels of a picture of this width and height."""
    page.evaluate(
        """() => {
          document.querySelector(".overlay rect").style.visibility = "visible";
          document.querySelector(".stage video, .stage img").style.visibility = "hidden";
        }"""
    )
    left, top, right, bottom = bounds(picture(page).max(axis=-1) > _BLACK)
    page.evaluate(
        """() => {
          document.querySelector(".overlay rect").style.visibility = "";
          document.querySelector(".stage video, .stage img").style.visibility = "";
        }"""
    )
    outside = _LINE / 2 * page.evaluate("devicePixelRatio")
    return area.pixels(Bounds(left + outside, top + outside, right - outside, bottom - outside), size)


def picture(page: Page) -> np.ndarray:
    """Return the pixels of the player."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return np.asarray(Image.open(BytesIO(page.locator(".stage").screenshot())).convert("RGB"))


def bounds(mask: np.ndarray) -> Bounds:
    """Return left, top, right and bottom of what is set."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return Bounds(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)
