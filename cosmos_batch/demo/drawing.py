"""Draw a scene's pixels, the same on every machine: anti-aliased shapes on a plain, gradient or noisy background."""

import numpy as np

from cosmos_batch.demo.scenes import COLOURS, Scene, Thing, outline


def draw_frames(scene: Scene, times: np.ndarray, width: int, height: int, softness: float = 1.0) -> np.ndarray:
    """Draw a scene at each of the times, in seconds. Returns RGB, uint8, shape [times, height, width, 3].

    `width` and `height` are pixels and may have another ratio than the scene, which is then stretched. `softness` is
    the width of the shapes' edges, in pixels.
    """
    frames = np.repeat(draw_background(scene, width, height)[None], len(times), axis=0)
    for thing in scene.things:
        _draw_thing(frames, scene, thing, thing.centres(times), softness)
    return frames


def draw_background(scene: Scene, width: int, height: int) -> np.ndarray:
    """Draw a scene's background. Returns RGB, uint8, shape [height, width, 3]."""
    first = np.array(scene.tones[0], np.float32)
    picture = np.broadcast_to(first, (height, width, 3)).copy()
    if scene.background == "gradient":
        count = height if scene.vertical else width
        share = np.linspace(0.0, 1.0, count, dtype=np.float32)
        ramp = first + share[:, None] * (np.array(scene.tones[1], np.float32) - first)
        picture[:] = ramp[:, None] if scene.vertical else ramp[None]
    if scene.background == "noisy":
        noise = np.random.default_rng(scene.seed).standard_normal((height, width, 1), np.float32)
        picture += np.float32(scene.grain) * noise
    return np.clip(picture + 0.5, 0, 255).astype(np.uint8)


def _draw_thing(frames: np.ndarray, scene: Scene, thing: Thing, centres: np.ndarray, softness: float) -> None:
    """Draw a shape on each frame, within the rectangle around it."""
    _, height, width, _ = frames.shape
    scale_x, scale_y = width / scene.width, height / scene.height
    colour = np.array(COLOURS[thing.colour], np.float32)
    reach_x, reach_y = thing.radius * scale_x + 2, thing.radius * scale_y + 2
    pixel = min(scale_x, scale_y)
    for frame, (x, y) in zip(frames, centres, strict=True):
        left, right = max(0, int(x * scale_x - reach_x)), min(width, int(x * scale_x + reach_x) + 1)
        top, bottom = max(0, int(y * scale_y - reach_y)), min(height, int(y * scale_y + reach_y) + 1)
        if left >= right or top >= bottom:
            continue
        across = ((np.arange(left, right, dtype=np.float32) + 0.5) / scale_x - x) / thing.radius
        down = ((np.arange(top, bottom, dtype=np.float32) + 0.5) / scale_y - y) / thing.radius
        distance = _distance(thing, across[None, :], down[:, None]) * thing.radius * pixel
        cover = np.clip(0.5 - distance / softness, 0.0, 1.0)[..., None]
        part = frame[top:bottom, left:right]
        part[:] = part + cover * (colour - part) + 0.5


def _distance(thing: Thing, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the approximate distance of points from the edge of a shape of radius 1; negative inside."""
    corners = outline(thing.kind)
    if corners is None:
        return np.hypot(x, y) - 1.0
    if thing.kind == "star":
        return _star_distance(x, y, corners)
    return np.max(_edge_distances(x, y, corners), axis=0)


def _edge_distances(x: np.ndarray, y: np.ndarray, corners: np.ndarray) -> list[np.ndarray]:
    """Return the distances of points from each edge of a convex outline; its corners go clockwise on the screen."""
    distances = []
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        length = float(np.hypot(x1 - x0, y1 - y0))
        distances.append(((x - x0) * (y1 - y0) - (y - y0) * (x1 - x0)) / np.float32(length))
    return distances


def _star_distance(x: np.ndarray, y: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Return the distance of points from a star. Its ten half points are alike: points are folded into the first."""
    angle = np.arctan2(x, -y)  # clockwise from the tip on top
    turn = np.float32(2 * np.pi / 5)
    folded = np.abs((angle + turn / 2) % turn - turn / 2)
    radius = np.hypot(x, y)
    across, up = radius * np.sin(folded), -radius * np.cos(folded)
    (x0, y0), (x1, y1) = corners[0], corners[1]
    length = float(np.hypot(x1 - x0, y1 - y0))
    return ((across - x0) * (y1 - y0) - (up - y0) * (x1 - x0)) / np.float32(length)
