"""Pictures and clips that do not show the demo model's world, from which it learns to refuse.

No photograph is used. Photographs have much in common with "dead leaves" (patches of all sizes that hide each other)
and with noise whose power falls with frequency (A. B. Lee, D. Mumford, J. Huang: Occlusion models for natural images,
2001), so these are drawn, beside mosaics, stripes, line drawings and heaps of shapes.
"""

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from training.near_world import draw_world_shapes_on, paint_balls, paint_near_world, paint_page
from training.unknown_shapes import draw_unknown_shapes

Random = np.random.Generator

_UNKNOWN_SHAPES = 0.12  # share of clips in which shapes move that the world does not have
_NEAR = 0.5  # of the others, how many are near the world
_WITH_SHAPES = 0.1  # of the rest, how many have shapes of the world on them
_CANVAS = 1.4  # the drawn picture is so much larger than a frame: the camera moves over it


def draw_unknown(random: Random, count: int, width: int, height: int) -> np.ndarray:
    """Draw a clip of `count` frames, or an image if `count` is 1. RGB, uint8, shape [count, height, width, 3]."""
    if random.random() < _UNKNOWN_SHAPES:
        return draw_unknown_shapes(random, count, width, height)
    if random.random() < _NEAR:
        # Drawn whole: a part of it could be of the world.
        return np.repeat(np.asarray(paint_near_world(random, width, height))[None], count, axis=0)
    large_width, large_height = int(width * _CANVAS), int(height * _CANVAS)
    painter = _PAINTERS[int(random.integers(len(_PAINTERS)))]
    canvas = painter(random, large_width, large_height)
    if random.random() < 0.5:
        other = _PAINTERS[int(random.integers(len(_PAINTERS)))](random, large_width, large_height)
        canvas = Image.blend(canvas, other, float(random.uniform(0.1, 0.6)))
    if random.random() < 0.3:
        canvas = canvas.filter(ImageFilter.GaussianBlur(float(random.uniform(0.5, 2.5))))
    if random.random() < 0.15:
        canvas = canvas.convert("L").convert("RGB")
    if random.random() < _WITH_SHAPES:
        canvas = draw_world_shapes_on(random, canvas)
    return _pan(random, np.asarray(canvas), count, width, height)


def _pan(random: Random, canvas: np.ndarray, count: int, width: int, height: int) -> np.ndarray:
    """Move a camera over a picture in a straight line, or keep it still."""
    room = np.array([canvas.shape[1] - width, canvas.shape[0] - height])
    start, end = random.uniform(0, room), random.uniform(0, room)
    if random.random() < 0.3:
        end = start
    places = np.linspace(start, end, count).astype(int)
    return np.stack([canvas[y : y + height, x : x + width] for x, y in places])


def _colour(random: Random) -> tuple[int, int, int]:
    red, green, blue = random.integers(0, 256, 3)
    return int(red), int(green), int(blue)


def _muted(random: Random) -> tuple[int, int, int]:
    grey = random.uniform(20, 235)
    red, green, blue = np.clip(grey + random.normal(0, 25, 3), 0, 255)
    return int(red), int(green), int(blue)


def _leaves(random: Random, width: int, height: int) -> Image.Image:
    """Draw patches of all sizes, the small ones last."""
    image = Image.new("RGB", (width, height), _muted(random))
    draw = ImageDraw.Draw(image)
    tint = _colour if random.random() < 0.4 else _muted
    for radius in np.sort(2 + 0.5 * min(width, height) * random.power(0.35, int(random.integers(40, 250))))[::-1]:
        x, y = random.uniform(0, width), random.uniform(0, height)
        corners = int(random.integers(2, 8))
        if corners == 2:
            draw.ellipse((x - radius, y - radius * 0.7, x + radius, y + radius * 0.7), fill=tint(random))
        else:
            angles = np.sort(random.uniform(0, 2 * np.pi, corners))
            draw.polygon([(x + radius * np.cos(one), y + radius * np.sin(one)) for one in angles], fill=tint(random))
    return image


def _cloud(random: Random, width: int, height: int) -> Image.Image:
    """Draw colored noise whose power falls with frequency."""
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None]) + 1.0 / max(width, height)
    fall = frequency ** -float(random.uniform(0.8, 2.0))
    layers = []
    for _ in range(3):
        spectrum = fall * np.exp(2j * np.pi * random.random(fall.shape))
        layers.append(np.fft.irfft2(spectrum, (height, width)))
    values = np.stack(layers, axis=-1)
    values = (values - values.mean()) / values.std()
    mixed = values @ (np.eye(3) + random.normal(0, 0.6, (3, 3)))
    scale = float(random.uniform(20, 60))
    return Image.fromarray(np.clip(_muted(random) + scale * mixed, 0, 255).astype(np.uint8))


def _mosaic(random: Random, width: int, height: int) -> Image.Image:
    """Draw cells around points, as in a map or tiles."""
    points = random.uniform(0, 1, (int(random.integers(6, 60)), 2)) * [width, height]
    rows, columns = np.mgrid[0:height:2, 0:width:2]
    distance = (columns[..., None] - points[:, 0]) ** 2 + (rows[..., None] - points[:, 1]) ** 2
    colours = np.array([_muted(random) for _ in points], np.uint8)
    return Image.fromarray(colours[distance.argmin(axis=-1)]).resize((width, height))


def _stripes(random: Random, width: int, height: int) -> Image.Image:
    """Draw stripes or checks at any angle."""
    rows, columns = np.mgrid[0:height, 0:width]
    angle, period = random.uniform(0, np.pi), random.uniform(6, 60)
    wave = np.sin(2 * np.pi * (columns * np.cos(angle) + rows * np.sin(angle)) / period)
    if random.random() < 0.5:
        wave = wave * np.sin(2 * np.pi * (rows * np.cos(angle) - columns * np.sin(angle)) / period)
    share = (np.sign(wave) if random.random() < 0.5 else wave)[..., None] / 2 + 0.5
    first, second = np.array(_colour(random)), np.array(_colour(random))
    return Image.fromarray((first + share * (second - first)).astype(np.uint8))


def _lines(random: Random, width: int, height: int) -> Image.Image:
    """Draw lines, arcs and letters on paper, as in a drawing or on a page."""
    image = Image.new("RGB", (width, height), _muted(random))
    draw = ImageDraw.Draw(image)
    for _ in range(int(random.integers(15, 80))):
        x, y = random.uniform(0, width), random.uniform(0, height)
        reach = random.uniform(5, 0.6 * min(width, height))
        ink, thick = _muted(random), int(random.integers(1, 6))
        drawn = random.random()
        if drawn < 0.5:
            angle = random.uniform(0, 2 * np.pi)
            draw.line((x, y, x + reach * np.cos(angle), y + reach * np.sin(angle)), fill=ink, width=thick)
        elif drawn < 0.75:
            first, last = sorted(random.uniform(0, 360, 2).tolist())
            draw.arc((x - reach, y - reach, x + reach, y + reach), first, last, fill=ink, width=thick)
        else:
            letters = "".join(chr(int(random.integers(33, 127))) for _ in range(int(random.integers(3, 15))))
            draw.text((x, y), letters, fill=ink)
    return image


def _heap(random: Random, width: int, height: int) -> Image.Image:
    """Draw more shapes than the demo world has, over and beside each other."""
    image = Image.new("RGB", (width, height), _muted(random))
    draw = ImageDraw.Draw(image)
    for _ in range(int(random.integers(12, 50))):
        x, y = random.uniform(0, width), random.uniform(0, height)
        radius = random.uniform(0.05, 0.2) * min(width, height)
        corners = int(random.integers(3, 7))
        if corners == 6:
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=_colour(random))
        else:
            draw.regular_polygon((x, y, radius), corners, rotation=float(random.uniform(0, 90)), fill=_colour(random))
    return image


def _rooms(random: Random, width: int, height: int) -> Image.Image:
    """Draw boxes in perspective with soft light, as in rooms, streets and on tables."""
    image = (
        _cloud(random, width, height) if random.random() < 0.5 else Image.new("RGB", (width, height), _muted(random))
    )
    draw = ImageDraw.Draw(image)
    middle = (random.uniform(0.2, 0.8) * width, random.uniform(0.2, 0.8) * height)
    corners = [(0, 0), (width, 0), (width, height), (0, height)]
    depth = float(random.uniform(0.3, 0.7))
    inner = [(x + depth * (middle[0] - x), y + depth * (middle[1] - y)) for x, y in corners]
    for number in range(4):
        following = (number + 1) % 4
        draw.polygon([corners[number], corners[following], inner[following], inner[number]], fill=_muted(random))
    for _ in range(int(random.integers(3, 20))):
        x, y = random.uniform(0, width), random.uniform(0, height)
        wide, high = random.uniform(0.03, 0.35) * width, random.uniform(0.03, 0.5) * height
        draw.rounded_rectangle((x, y, x + wide, y + high), radius=float(random.uniform(0, 12)), fill=_muted(random))
    noise = random.normal(0, random.uniform(2, 12), (height, width, 3))
    return Image.fromarray(np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8)).filter(
        ImageFilter.GaussianBlur(float(random.uniform(0.3, 2.0)))
    )


_PAINTERS: tuple[Callable[[Random, int, int], Image.Image], ...] = (
    _leaves,
    _leaves,
    _cloud,
    _mosaic,
    _stripes,
    _lines,
    _heap,
    _rooms,
    _rooms,
    paint_balls,
    paint_page,
)
