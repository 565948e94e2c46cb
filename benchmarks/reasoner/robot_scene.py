"""The scene of the reasoner's benchmark: a robot arm carries a red cube from the left to the right."""

import math

from PIL import Image, ImageDraw

WIDTH, HEIGHT = 320, 240  # pixels
FPS = 12
SECONDS = 4

_SCALE = 2  # drawn larger and scaled down: Pillow draws without anti-aliasing
_TABLE_Y = 190
_SHOULDER = (160, 60)
_UPPER, _LOWER = 75, 80  # lengths of the arm, in pixels
_PICK_X, _PLACE_X = 75, 245
_CUBE = 26
_LIFT = 45
# Shares of the clip at which the arm arrives above the cube, holds it, has carried it over and let it go.
_REACHED, _CARRIED = 0.25, 0.8

Point = tuple[float, float]


def draw_scene(share: float) -> Image.Image:
    """Draw the scene at a share (0 to 1) of the clip. RGB, `WIDTH` x `HEIGHT`."""
    image = Image.new("RGB", (WIDTH * _SCALE, HEIGHT * _SCALE), "#dfe7ee")
    draw = ImageDraw.Draw(image)
    hand = _hand(share)
    _rectangle(draw, (0, _TABLE_Y), (WIDTH, HEIGHT), "#8b6f52")
    _rectangle(draw, (_PLACE_X - 24, _TABLE_Y), (_PLACE_X + 24, _TABLE_Y + 6), "#4a7f5a")
    _draw_cube(draw, _cube(share, hand))
    _draw_arm(draw, hand)
    return image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)


def _hand(share: float) -> Point:
    """Return the gripper's position: it moves down to the cube, carries it over in an arc, and moves up again."""
    grip_y = _TABLE_Y - _CUBE
    if share < _REACHED:
        return _PICK_X, grip_y - _LIFT * (1 - _smooth(share / _REACHED))
    if share < _CARRIED:
        carried = _smooth((share - _REACHED) / (_CARRIED - _REACHED))
        return _PICK_X + (_PLACE_X - _PICK_X) * carried, grip_y - _LIFT * math.sin(math.pi * carried)
    return _PLACE_X, grip_y - _LIFT * _smooth((share - _CARRIED) / (1 - _CARRIED))


def _cube(share: float, hand: Point) -> Point:
    """Return the middle of the cube's upper side."""
    if share < _REACHED:
        return _PICK_X, _TABLE_Y - _CUBE
    return hand if share < _CARRIED else (_PLACE_X, _TABLE_Y - _CUBE)


def _smooth(share: float) -> float:
    return (1 - math.cos(math.pi * share)) / 2


def _draw_cube(draw: ImageDraw.ImageDraw, top: Point) -> None:
    x, y = top
    _rectangle(draw, (x - _CUBE / 2, y), (x + _CUBE / 2, y + _CUBE), "#c8342b")
    _rectangle(draw, (x - _CUBE / 2, y), (x + _CUBE / 2, y + 5), "#e2574c")


def _draw_arm(draw: ImageDraw.ImageDraw, hand: Point) -> None:
    elbow = _elbow(_SHOULDER, hand)
    _rectangle(draw, (_SHOULDER[0] - 22, 0), (_SHOULDER[0] + 22, _SHOULDER[1]), "#46535f")
    for start, end, width in ((_SHOULDER, elbow, 16), (elbow, hand, 11)):
        draw.line([*_scaled(start), *_scaled(end)], fill="#f0a202", width=width * _SCALE)
    for joint in (_SHOULDER, elbow):
        draw.circle(_scaled(joint), 10 * _SCALE, fill="#46535f")
    _rectangle(draw, (hand[0] - 17, hand[1] - 5), (hand[0] + 17, hand[1]), "#2c343b")
    for side in (-17, 13):
        _rectangle(draw, (hand[0] + side, hand[1]), (hand[0] + side + 4, hand[1] + 12), "#2c343b")


def _elbow(shoulder: Point, hand: Point) -> Point:
    """Return where the two links from shoulder to hand meet, by the law of cosines."""
    dx, dy = hand[0] - shoulder[0], hand[1] - shoulder[1]
    reach = min(math.hypot(dx, dy), _UPPER + _LOWER - 1)
    bend = math.acos((_UPPER**2 + reach**2 - _LOWER**2) / (2 * _UPPER * reach))
    angle = math.atan2(dy, dx) - bend
    return shoulder[0] + _UPPER * math.cos(angle), shoulder[1] + _UPPER * math.sin(angle)


def _rectangle(draw: ImageDraw.ImageDraw, start: Point, end: Point, colour: str) -> None:
    draw.rectangle([*_scaled(start), *_scaled(end)], fill=colour)


def _scaled(point: Point) -> tuple[float, float]:
    return point[0] * _SCALE, point[1] * _SCALE
