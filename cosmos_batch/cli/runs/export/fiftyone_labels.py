"""Convert the marks of an answer to labels of FiftyOne: detections, keypoints and temporal detections.

Their coordinates are shares of the picture, as ours are, and times are numbers of frames, from 1.
"""

from pathlib import Path
from typing import Any

import numpy as np

from cosmos_batch.catalogue.formats import Medium
from cosmos_batch.media import VideoInfo, probe
from cosmos_batch.media.errors import unusable_file
from cosmos_batch.viewing.marks import Box, Marks, Point

Label = dict[str, Any]


def labels_of(marks: Marks, media: Path, medium: Medium) -> dict[str, Label]:
    """Return the labels of a sample: boxes and points of an image, events of a video."""
    if medium == "image":
        return _places(marks.boxes, marks.points)
    if not marks.events:
        return {}
    times = _frame_times(media)
    detections = [
        {
            "_cls": "TemporalDetection",
            "label": event.caption,
            "support": [_frame_at(times, event.span.start), _frame_at(times, event.span.end)],
            "tags": [],
        }
        for event in marks.events
    ]
    return {"events": {"_cls": "TemporalDetections", "detections": detections}}


def frames_of(marks: Marks, media: Path) -> dict[str, Label]:
    """Return the frames of a video that have boxes or points, by their number. Without a time it is the first."""
    places: list[Box | Point] = [*marks.boxes, *marks.points]
    if not places:
        return {}
    times = _frame_times(media)
    numbers = {place: _frame_at(times, place.span.start if place.span else 0.0) for place in places}
    return {
        str(number): {
            "frame_number": number,
            **_places(
                tuple(box for box in marks.boxes if numbers[box] == number),
                tuple(point for point in marks.points if numbers[point] == number),
            ),
        }
        for number in sorted(set(numbers.values()))
    }


def _places(boxes: tuple[Box, ...], points: tuple[Point, ...]) -> dict[str, Label]:
    labels: dict[str, Label] = {}
    if boxes:
        labels["boxes"] = {"_cls": "Detections", "detections": [_detection(box) for box in boxes]}
    if points:
        labels["points"] = {"_cls": "Keypoints", "keypoints": [_keypoint(point) for point in points]}
    return labels


def _detection(box: Box) -> Label:
    bounds = [box.left, box.top, box.right - box.left, box.bottom - box.top]
    return {"_cls": "Detection", "label": box.label, "bounding_box": bounds, "attributes": {}, "tags": []}


def _keypoint(point: Point) -> Label:
    return {"_cls": "Keypoint", "label": point.label, "points": [[point.x, point.y]], "attributes": {}, "tags": []}


def _frame_times(media: Path) -> np.ndarray:
    """Return the seconds of all frames of a video. Raises Failure where it cannot be read, or its content is an image.

    Workers read an image that is named as a video too, but FiftyOne goes by the name.
    """
    video = probe(media)
    if not isinstance(video, VideoInfo):
        raise unusable_file(f"{media.name} is an image, and has no frames.")
    return video.timeline.times


def _frame_at(times: np.ndarray, seconds: float) -> int:
    """Return the number of the frame that is shown at a time, from 1."""
    return max(1, int(np.searchsorted(times, seconds, side="right")))
