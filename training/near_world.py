"""Drawn pictures that resemble the demo model's world and are not of it, from which it learns where its world ends.

Other shapes, too many shapes, shapes on pictures, shaded balls, charts, icons, flags, pages of text, faces and houses,
and backgrounds without any shape.
"""

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from cosmos_batch.demo.drawing import draw_background, draw_frames
from training.unknown_shapes import (
    Colour,
    Random,
    draw_unknown_shapes,
    draw_world_shape,
    random_colour,
    random_world_background,
    random_world_scene,
)

Painter = Callable[[Random, int, int], Image.Image]

_WORDS = ("total", "Sales 2024", "the quick brown fox", "EXIT", "stop", "Hello", "figure 3", "circle", "12:45", "100 %")


def paint_near_world(random: Random, width: int, height: int) -> Image.Image:
    """Draw one picture that is near the demo model's world and not of it."""
    return PAINTERS[int(random.integers(len(PAINTERS)))](random, width, height)


def _paper(random: Random) -> Colour:
    level = int(random.integers(200, 256)) if random.random() < 0.75 else int(random.integers(0, 60))
    return level, level, level


def _unknown_shapes(random: Random, width: int, height: int) -> Image.Image:
    return Image.fromarray(draw_unknown_shapes(random, 1, width, height)[0])


def _crowd(random: Random, width: int, height: int) -> Image.Image:
    """Draw five to nine shapes of the world's, in a grid or anywhere."""
    image = random_world_background(random, width, height)
    draw = ImageDraw.Draw(image)
    radius = float(random.uniform(0.07, 0.13)) * min(width, height)
    count = int(random.integers(5, 10))
    columns = int(np.ceil(np.sqrt(count * width / height)))
    rows = -(-count // columns)
    loose = random.random() < 0.6
    for number in range(count):
        x = (number % columns + 0.5) * width / columns + loose * random.normal(0, 0.3 * radius)
        y = (number // columns + 0.5) * height / rows + loose * random.normal(0, 0.3 * radius)
        draw_world_shape(random, draw, x, y, radius, random_colour(random))
    return image


def _empty(random: Random, width: int, height: int) -> Image.Image:
    """Draw a background of the world, or a gradient of any colors, without a shape."""
    if random.random() < 0.5:
        return random_world_background(random, width, height)
    angle = random.uniform(0, 2 * np.pi)
    share = np.linspace(-1, 1, width)[None] * np.cos(angle) + np.linspace(-1, 1, height)[:, None] * np.sin(angle)
    if random.random() < 0.3:
        share = np.hypot(np.linspace(-1, 1, width)[None], np.linspace(-1, 1, height)[:, None])
    share = np.clip(share / 2 + 0.5, 0, 1)[..., None]
    first, second = np.array(random_colour(random)), np.array(random_colour(random))
    return Image.fromarray((first + share * (second - first)).astype(np.uint8))


def paint_balls(random: Random, width: int, height: int) -> Image.Image:
    """Draw shaded balls, coins, wheels or plates over a soft background, as photographs of round things have them."""
    spread = float(random.choice([0, 15, 40, 100]))
    patches = (
        random.uniform(30, 225) + random.normal(0, spread / 2, (3, 4, 1)) + random.normal(0, spread / 2, (3, 4, 3))
    )
    small = Image.fromarray(np.clip(patches, 0, 255).astype(np.uint8))
    image = small.resize((width, height), Image.Resampling.BICUBIC)
    base = np.asarray(image, np.float32) + random.normal(0, random.uniform(1, 10), (height, width, 3))
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float32)
    for _ in range(int(random.integers(1, 5))):
        radius = float(random.uniform(0.12, 0.4)) * min(width, height)
        x, y = random.uniform(0, width), random.uniform(0, height)
        dx, dy = (columns - x) / radius, (rows - y) / radius
        distance = np.hypot(dx, dy)
        cover = np.clip((1 - distance) * radius / 1.5, 0, 1)[..., None]
        colour = np.array(random_colour(random), np.float32)
        if random.random() < 0.6:
            light = np.clip(1.1 - 0.9 * np.hypot(dx + 0.4, dy + 0.4), 0.1, 1.2)[..., None]
            shine = 200 * np.exp(-20 * ((dx + 0.4) ** 2 + (dy + 0.4) ** 2))[..., None]
            painted = colour * light + shine
        else:
            rings = 0.75 + 0.25 * np.cos(distance * float(random.uniform(6, 25)))[..., None]
            painted = colour * rings
        shadow = np.clip(1.2 - np.hypot(dx - 0.3, (dy - 0.8) * 2), 0, 0.5)[..., None]
        base = base * (1 - shadow)
        base = base + cover * (painted - base)
    soft = Image.fromarray(np.clip(base, 0, 255).astype(np.uint8))
    return soft.filter(ImageFilter.GaussianBlur(float(random.uniform(0.3, 1.5))))


def _chart(random: Random, width: int, height: int) -> Image.Image:
    """Draw a bar, line or pie chart with axes and labels."""
    image = Image.new("RGB", (width, height), _paper(random))
    draw = ImageDraw.Draw(image)
    left, top, right, bottom = 0.12 * width, 0.1 * height, 0.92 * width, 0.88 * height
    grey = (90, 90, 90)
    kind = int(random.integers(4))
    count = int(random.integers(3, 9))
    if kind == 0:
        ends = np.cumsum(random.dirichlet(np.ones(count))) * 360
        side = min(right - left, bottom - top)
        place = (left, top, left + side, top + side)
        for start, end in zip([0.0, *ends[:-1]], ends, strict=True):
            draw.pieslice(place, float(start), float(end), fill=random_colour(random))
    else:
        draw.line((left, top, left, bottom, right, bottom), fill=grey, width=2)
        values = random.uniform(0.1, 0.95, count)
        step = (right - left) / count
        points = [(left + (i + 0.5) * step, bottom - one * (bottom - top)) for i, one in enumerate(values)]
        one_ink = random_colour(random)
        for x, y in points:
            ink = one_ink if random.random() < 0.6 else random_colour(random)
            if kind == 1:
                draw.rectangle((x - 0.35 * step, y, x + 0.35 * step, bottom), fill=ink)
            else:
                draw.ellipse((x - 4, y - 4, x + 4, y + 4), fill=ink)
        if kind == 2:
            draw.line(points, fill=one_ink, width=3)
    for _ in range(int(random.integers(1, 6))):
        _write(random, draw, width, height, 0.06)
    return image


def _write(random: Random, draw: ImageDraw.ImageDraw, width: int, height: int, size: float) -> None:
    word = _WORDS[int(random.integers(len(_WORDS)))]
    font = ImageFont.load_default(max(8.0, size * min(width, height)))
    place = (float(random.uniform(0, 0.7 * width)), float(random.uniform(0, 0.9 * height)))
    draw.text(place, word, fill=random_colour(random), font=font)


def paint_page(random: Random, width: int, height: int) -> Image.Image:
    """Draw a heading, or lines of text."""
    image = Image.new("RGB", (width, height), _paper(random))
    draw = ImageDraw.Draw(image)
    if random.random() < 0.5:
        for _ in range(int(random.integers(1, 4))):
            _write(random, draw, width, height, float(random.uniform(0.15, 0.4)))
        return image
    size = max(8.0, float(random.uniform(0.05, 0.1)) * height)
    font = ImageFont.load_default(size)
    for row in range(int(0.9 * height / (1.3 * size))):
        words = random.choice(_WORDS, 4)
        draw.text((0.06 * width, 0.05 * height + row * 1.3 * size), " ".join(words), fill=(40, 40, 40), font=font)
    return image


def _flag(random: Random, width: int, height: int) -> Image.Image:
    """Draw stripes, a cross, a triangle at the pole or a corner field, without a single shape on plain ground."""
    image = Image.new("RGB", (width, height), random_colour(random))
    draw = ImageDraw.Draw(image)
    kind = int(random.integers(4))
    if kind == 1:
        x, thick = float(random.uniform(0.3, 0.6)) * width, 0.1 * height
        ink = random_colour(random)
        draw.rectangle((x - thick, 0, x + thick, height), fill=ink)
        draw.rectangle((0, height / 2 - thick, width, height / 2 + thick), fill=ink)
        return image
    stripes, upright = int(random.choice([2, 3, 5, 9])), random.random() < 0.4
    for number in range(stripes):
        low, high = number / stripes, (number + 1) / stripes
        box = (low * width, 0, high * width, height) if upright else (0, low * height, width, high * height)
        draw.rectangle(box, fill=random_colour(random))
    if kind == 2:
        draw.polygon([(0, 0), (0.45 * width, height / 2), (0, height)], fill=random_colour(random))
    elif kind == 3:
        draw.rectangle((0, 0, 0.45 * width, 0.5 * height), fill=random_colour(random))
        draw_world_shape(random, draw, 0.22 * width, 0.25 * height, 0.15 * min(width, height), random_colour(random))
    return image


def _icons(random: Random, width: int, height: int) -> Image.Image:
    """Draw one icon or a few: a rounded field with a sign on it."""
    image = Image.new("RGB", (width, height), _paper(random))
    draw = ImageDraw.Draw(image)
    across, down = (int(random.integers(1, 4)) for _ in range(2))
    for number in range(across * down):
        x, y = (number % across + 0.5) * width / across, (number // across + 0.5) * height / down
        radius = 0.38 * min(width / across, height / down)
        field = (x - radius, y - radius, x + radius, y + radius)
        if random.random() < 0.6:
            draw.rounded_rectangle(field, radius=radius * float(random.uniform(0.2, 0.5)), fill=random_colour(random))
        else:
            draw.ellipse(field, fill=random_colour(random))
        sign, ink = random.random(), random_colour(random)
        if sign < 0.5:
            draw_world_shape(random, draw, x, y, radius * 0.5, ink)
        elif sign < 0.75:
            font = ImageFont.load_default(max(8.0, radius * 1.2))
            draw.text((x, y), chr(int(random.integers(48, 91))), fill=ink, font=font, anchor="mm")
        else:
            for step in (-0.4, 0.0, 0.4):
                draw.line(
                    (x - 0.5 * radius, y + step * radius, x + 0.5 * radius, y + step * radius),
                    fill=ink,
                    width=max(2, int(radius / 6)),
                )
    return image


def _cartoon(random: Random, width: int, height: int) -> Image.Image:
    """Draw a face, a house or a car from simple shapes on top of each other."""
    image = random_world_background(random, width, height)
    draw = ImageDraw.Draw(image)
    r = float(random.uniform(0.18, 0.35)) * min(width, height)
    x, y = float(random.uniform(r, width - r)), float(random.uniform(r, height - r))
    kind, body, detail = int(random.integers(3)), random_colour(random), random_colour(random)
    if kind == 0:
        draw.ellipse((x - r, y - r, x + r, y + r), fill=body, outline=detail, width=3)
        for side in (-0.4, 0.4):
            draw.ellipse((x + side * r - 0.13 * r, y - 0.4 * r, x + side * r + 0.13 * r, y - 0.1 * r), fill=detail)
        draw.arc((x - 0.5 * r, y - 0.3 * r, x + 0.5 * r, y + 0.6 * r), 20, 160, fill=detail, width=max(2, int(r / 10)))
    elif kind == 1:
        draw.rectangle((x - 0.7 * r, y - 0.2 * r, x + 0.7 * r, y + r), fill=body)
        draw.polygon([(x - r, y - 0.2 * r), (x, y - r), (x + r, y - 0.2 * r)], fill=detail)
        draw.rectangle((x - 0.15 * r, y + 0.4 * r, x + 0.15 * r, y + r), fill=random_colour(random))
    else:
        draw.rectangle((x - r, y - 0.1 * r, x + r, y + 0.4 * r), fill=body)
        draw.rectangle((x - 0.5 * r, y - 0.5 * r, x + 0.5 * r, y), fill=body)
        for side in (-0.6, 0.6):
            draw.ellipse((x + side * r - 0.25 * r, y + 0.15 * r, x + side * r + 0.25 * r, y + 0.65 * r), fill=detail)
    return image


def draw_world_shapes_on(random: Random, picture: Image.Image) -> Image.Image:
    """Draw one to three shapes of the world over a picture that is not of it."""
    width, height = picture.size
    scene = random_world_scene(random, width, height)
    bare = draw_background(scene, width, height).astype(int)
    full = draw_frames(scene, np.zeros(1), width, height)[0]
    shape = (np.abs(full - bare).max(axis=-1) > 20)[..., None]
    return Image.fromarray(np.where(shape, full, np.asarray(picture)).astype(np.uint8))


PAINTERS: tuple[Painter, ...] = (
    _unknown_shapes,
    _crowd,
    _empty,
    paint_balls,
    paint_balls,
    _chart,
    paint_page,
    _flag,
    _icons,
    _cartoon,
)
