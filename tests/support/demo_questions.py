"""Questions about clips of the demo model's world with true answers, for tests through the app and of the engines."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cosmos_batch.demo.media import HEIGHT, SAMPLE, SECONDS, WIDTH, write_clip, write_image
from cosmos_batch.demo.scenes import Movement, Scene, Thing

GREEDY = {"temperature": 0, "presencePenalty": 0}
HALF_SECOND = 0.5
BOX_TOLERANCE = 60  # thousandths of the picture
MOVING = Thing("circle", "red", 0.13, 0.3, 0.5, Movement("right", 1.0, 2.5, 0.6))
RIGHT = replace(SAMPLE, things=(MOVING,))
"""A red circle stands still for a second, moves to the right for a second and a half, and stands still."""
LEFT = replace(RIGHT, things=(replace(MOVING, x=MOVING.x + 0.6, event=Movement("left", 1.5, 3.0, 0.6, towards=-1)),))
"""The same clip played backwards."""
SLOW = replace(RIGHT, duration=6.0, things=(replace(MOVING, event=Movement("right", 2.0, 5.0, 0.6)),))


@dataclass(frozen=True)
class DemoQuestion:
    """A question about a scene.

    Attributes
    ----------
    is_true
        Returns whether an answer is true of the scene.
    fps
        Frames per second of the clip.
    image_at
        The second of the scene that is asked about as an image; None for the clip.
    """

    name: str
    scene: Scene
    prompt: str | None
    is_true: Callable[[str], bool]
    parameters: dict[str, Any] = field(default_factory=dict)
    fps: int = 12
    image_at: float | None = None

    def write(self, folder: Path) -> Path:
        """Write the clip or image below a folder, and return its path."""
        if self.image_at is not None:
            return write_image(self.scene, folder / f"{self.name}.png", WIDTH, HEIGHT, seconds=self.image_at)
        return write_clip(self.scene, folder / f"{self.name}.mp4", WIDTH, HEIGHT, self.fps)


def says(answer: str) -> Callable[[str], bool]:
    """Return a check that an answer is this text."""
    return lambda text: text == answer


def moves(start: float, end: float) -> Callable[[str], bool]:
    """Return a check that the first event of an answer has these times, within half a second."""

    def check(text: str) -> bool:
        [event, *_] = json.loads(text)
        return bool(abs(event["start"] - start) <= HALF_SECOND and abs(event["end"] - end) <= HALF_SECOND)

    return check


def square_at(across: int, down: int) -> Callable[[str], bool]:
    """Return a check that an answer is one box of the blue square with this middle, in thousandths of the picture."""

    def check(text: str) -> bool:
        [place] = json.loads(text)
        left, top, right, bottom = place["bbox_2d"]
        near = max(abs((left + right) / 2 - across), abs((top + bottom) / 2 - down)) < BOX_TOLERANCE
        return bool(place["label"] == "blue square" and near)

    return check


_DIRECTION = "In which direction does the red circle move?"
_EVENTS: dict[str, Any] = {"task": "temporal-localization"}
_BOX: dict[str, Any] = {"task": "2d-grounding"}
QUESTIONS = {
    one.name: one
    for one in (
        DemoQuestion("forwards", RIGHT, _DIRECTION, says("The red circle moves to the right.")),
        DemoQuestion("backwards", LEFT, _DIRECTION, says("The red circle moves to the left.")),
        DemoQuestion("rate-8", RIGHT, None, moves(1.0, 2.5), _EVENTS, fps=8),
        DemoQuestion("rate-24", RIGHT, None, moves(1.0, 2.5), _EVENTS, fps=24),
        DemoQuestion("slow", SLOW, None, moves(2.0, 5.0), _EVENTS),
        DemoQuestion("whole", LEFT, None, moves(1.5, 3.0), _EVENTS),
        DemoQuestion("cut", LEFT, None, moves(1.5, 3.0), {**_EVENTS, "start": 1.0}),
        DemoQuestion("last", SAMPLE, "What happens last?", says("The blue square falls to the ground.")),
        DemoQuestion(
            "last-before-the-cut",
            SAMPLE,
            "What happens last?",
            says("The red circle moves to the right."),
            {"end": 2.25},
        ),
        DemoQuestion("first-image", SAMPLE, "the blue square", square_at(825, 300), _BOX, image_at=0.0),
        DemoQuestion("last-image", SAMPLE, "the blue square", square_at(825, 892), _BOX, image_at=SECONDS),
        DemoQuestion("color", SAMPLE, "What color is the circle?", says("The circle is red.")),
        DemoQuestion("count", SAMPLE, "How many shapes are there?", says("There are two shapes.")),
    )
}
