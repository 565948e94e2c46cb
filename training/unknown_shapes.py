"""Draw shapes that the demo model's world does not have, and the parts of its world that go with them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from cosmos_batch.demo.drawing import draw_background
from cosmos_batch.demo.random_scenes import draw_scene
from cosmos_batch.demo.scenes import COLOURS, KINDS, Scene, outline

Random = np.random.Generator
Colour = tuple[int, int, int]

_OTHER_COLOURS: tuple[Colour, ...] = ((255, 150, 190), (120, 75, 40), (60, 210, 220), (130, 130, 130), (130, 220, 60))


@dataclass(frozen=True)
class ShapePen:
    """A pen that draws one shape: a square canvas with its center at (`center`, `center`), a radius and a color."""

    draw: ImageDraw.ImageDraw
    random: Random
    center: float
    radius: float
    ink: tuple[int, int, int, int]
    thickness: int

    def at(self, *offsets: float) -> tuple[float, ...]:
        """Return coordinates that are given in radii from the center."""
        return tuple(self.center + self.radius * one for one in offsets)


def _ellipse(pen: ShapePen) -> None:
    pen.draw.ellipse(pen.at(-1, -0.5, 1, 0.5), fill=pen.ink)


def _ring(pen: ShapePen) -> None:
    pen.draw.ellipse(pen.at(-1, -1, 1, 1), outline=pen.ink, width=pen.thickness)


def _polygon(pen: ShapePen) -> None:
    pen.draw.regular_polygon((pen.center, pen.center, pen.radius), int(pen.random.integers(5, 7)), fill=pen.ink)


def _bar(pen: ShapePen) -> None:
    narrow = float(pen.random.uniform(0.25, 0.5))
    wide, high = (1.0, narrow) if pen.random.random() < 0.5 else (narrow, 1.0)
    pen.draw.rectangle(pen.at(-wide, -high, wide, high), fill=pen.ink)


def _cross(pen: ShapePen) -> None:
    pen.draw.line(pen.at(-1, 0, 1, 0), fill=pen.ink, width=pen.thickness * 2)
    pen.draw.line(pen.at(0, -1, 0, 1), fill=pen.ink, width=pen.thickness * 2)


def _half_circle(pen: ShapePen) -> None:
    pen.draw.chord(pen.at(-1, -1, 1, 1), *((0, 180) if pen.random.random() < 0.5 else (90, 270)), fill=pen.ink)


def _moon(pen: ShapePen) -> None:
    pen.draw.ellipse(pen.at(-1, -1, 1, 1), fill=pen.ink)
    pen.draw.ellipse(pen.at(-0.5, -1, 1.2, 0.7), fill=(0, 0, 0, 0))


def _heart(pen: ShapePen) -> None:
    pen.draw.ellipse(pen.at(-1, -1, 0, 0), fill=pen.ink)
    pen.draw.ellipse(pen.at(0, -1, 1, 0), fill=pen.ink)
    pen.draw.polygon(pen.at(-0.95, -0.3, 0.95, -0.3, 0, 1), fill=pen.ink)


def _arrow(pen: ShapePen) -> None:
    sign = 1 if pen.random.random() < 0.5 else -1
    pen.draw.rectangle(pen.at(-0.9, -0.2, 0.9, 0.2), fill=pen.ink)
    pen.draw.polygon(pen.at(sign, 0, sign * 0.2, -0.7, sign * 0.2, 0.7), fill=pen.ink)


def _letter(pen: ShapePen) -> None:
    letter, font = chr(int(pen.random.integers(65, 91))), ImageFont.load_default(2 * pen.radius)
    pen.draw.text((pen.center, pen.center), letter, fill=pen.ink, font=font, anchor="mm")


def _outline_of_world_shape(pen: ShapePen) -> None:
    corners = outline(KINDS[int(pen.random.integers(1, 4))])
    assert corners is not None
    points = [offset for corner in (*corners, corners[0]) for offset in corner]
    pen.draw.line(pen.at(*points), fill=pen.ink, width=pen.thickness)


def _world_shape_of_other_color(pen: ShapePen) -> None:
    ink = _OTHER_COLOURS[int(pen.random.integers(len(_OTHER_COLOURS)))]
    draw_world_shape(pen.random, pen.draw, pen.center, pen.center, pen.radius, ink)


_SHAPES: tuple[Callable[[ShapePen], None], ...] = (
    _ellipse,
    _ring,
    _polygon,
    _bar,
    _cross,
    _half_circle,
    _moon,
    _heart,
    _arrow,
    _letter,
    _outline_of_world_shape,
    _world_shape_of_other_color,
)


def _draw_unknown_shape(random: Random, short: int) -> Image.Image:
    """Draw a shape that the world does not have, or one of its shapes in a color that it does not have."""
    radius = float(random.uniform(0.14, 0.24)) * short
    side = int(2 * radius) + 4
    sprite = Image.new("RGBA", (side * 2, side * 2))  # drawn at twice its size for smooth edges
    ink = (*random_colour(random), 255)
    thickness = max(3, int(2 * radius * random.uniform(0.1, 0.25)))
    shape = _SHAPES[int(random.integers(len(_SHAPES)))]
    shape(ShapePen(ImageDraw.Draw(sprite), random, float(side), 2 * radius, ink, thickness))
    return sprite.resize((side, side), Image.Resampling.BOX)


def draw_unknown_shapes(random: Random, count: int, width: int, height: int) -> np.ndarray:
    """Draw one to three shapes that the world does not have, each in a straight line, over a background that it has.

    Returns RGB, uint8, shape [count, height, width, 3].
    """
    background = random_world_background(random, width, height)
    sprites = [_draw_unknown_shape(random, min(width, height)) for _ in range(int(random.integers(1, 4)))]
    paths = []
    for sprite in sprites:
        room = np.maximum(1, [width - sprite.width, height - sprite.height])
        start = random.uniform(0, room)
        end = start if random.random() < 0.35 else random.uniform(0, room)
        paths.append(np.linspace(start, end, count).astype(int))
    frames = []
    for number in range(count):
        frame = background.copy()
        for sprite, path in zip(sprites, paths, strict=True):
            frame.paste(sprite, (int(path[number][0]), int(path[number][1])), sprite)
        frames.append(np.asarray(frame))
    return np.stack(frames)


def random_world_scene(random: Random, width: int, height: int) -> Scene:
    """Draw a scene of the world for an image of this size."""
    short = min(width, height)
    return draw_scene(random, width / short, height / short, 0.0)


def random_world_background(random: Random, width: int, height: int) -> Image.Image:
    """Draw a background of the world, without a shape."""
    return Image.fromarray(draw_background(random_world_scene(random, width, height), width, height))


def random_colour(random: Random) -> Colour:
    """Return a color of the world, or any other."""
    if random.random() < 0.6:
        return list(COLOURS.values())[int(random.integers(len(COLOURS)))]
    red, green, blue = random.integers(0, 256, 3)
    return int(red), int(green), int(blue)


def draw_world_shape(random: Random, draw: ImageDraw.ImageDraw, x: float, y: float, radius: float, ink: Colour) -> None:
    """Draw one of the world's shapes in this color."""
    corners = outline(KINDS[int(random.integers(len(KINDS)))])
    if corners is None:
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=ink)
    else:
        draw.polygon([(x + radius * across, y + radius * down) for across, down in corners], fill=ink)
