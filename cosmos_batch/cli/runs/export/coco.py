"""Export the boxes of a run's answers on images as a COCO file for object detection (https://cocodataset.org).

Boxes are in pixels of the upright image. Images without a box are left out: an answer may name none because it is about
something else. The file is written as it grows; images and categories are numbered in a database on disk.
"""

import json
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from cosmos_batch.catalogue.formats import medium_of
from cosmos_batch.cli.runs.export.image_sizes import ImageSizes
from cosmos_batch.cli.runs.ordered_threads import in_parallel
from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.runs import ResultLine
from cosmos_batch.viewing.marks import Box, marks_of_answer

_TABLES = """
CREATE TABLE images (id INTEGER PRIMARY KEY, uri TEXT UNIQUE, width INTEGER, height INTEGER);
CREATE TABLE categories (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
"""


class _Counts:
    """Counts what a COCO file cannot hold, for the notes."""

    def __init__(self) -> None:
        self.videos = 0
        self.unmeasured = 0
        self.example = ""

    def notes(self) -> list[str]:
        videos = f"{counted(self.videos, 'answer')} with boxes on a video left out: COCO holds images."
        gone = f"{counted(self.unmeasured, 'image')} left out that cannot be read any more, such as {self.example}."
        return [*([videos] if self.videos else []), *([gone] if self.unmeasured else [])]


def write(run: StoredRun, lines: Iterator[ResultLine], path: Path) -> list[str]:
    """Write annotations as the lines come, then the images and categories that they name."""
    counts, sizes = _Counts(), ImageSizes(run.s3)
    with (
        tempfile.TemporaryDirectory(dir=path.parent) as folder,
        sqlite3.connect(Path(folder) / "numbers.sqlite") as numbers,
        path.open("w", encoding="utf-8") as file,
    ):
        numbers.executescript(_TABLES)
        info = {"description": f"Boxes of the run {run.run}"}
        file.write(f'{{"info": {json.dumps(info)}, "licenses": [], "annotations": [')
        _write_list(file, _annotations(_with_boxes(lines, counts), sizes, numbers, counts))
        file.write('], "images": [')
        _write_list(file, _images(numbers))
        file.write('], "categories": [')
        _write_list(file, _categories(numbers))
        file.write("]}\n")
    return counts.notes()


def _with_boxes(lines: Iterator[ResultLine], counts: _Counts) -> Iterator[tuple[str, tuple[Box, ...]]]:
    """Yield the image and the boxes of each line that has both."""
    for line in lines:
        boxes = marks_of_answer(line.data, line.answer or "").boxes
        if not boxes or line.input is None:
            continue
        if medium_of(line.input) == "video":
            counts.videos += 1
        else:
            yield line.input, boxes


def _annotations(
    images: Iterator[tuple[str, tuple[Box, ...]]], sizes: ImageSizes, numbers: sqlite3.Connection, counts: _Counts
) -> Iterator[dict[str, Any]]:
    """Yield an annotation for each box, and number its image and category."""
    number = 0
    for (uri, boxes), size in in_parallel(lambda image: (image, sizes.measure(image[0])), images):
        if size is None:
            counts.unmeasured += 1
            counts.example = counts.example or uri
            continue
        numbers.execute("INSERT OR IGNORE INTO images (uri, width, height) VALUES (?, ?, ?)", (uri, *size))
        (image_id,) = numbers.execute("SELECT id FROM images WHERE uri = ?", (uri,)).fetchone()
        for box in boxes:
            number += 1
            category = _category(numbers, box.label or "object")
            yield {"id": number, "image_id": image_id, "category_id": category, **_in_pixels(box, *size)}


def _category(numbers: sqlite3.Connection, name: str) -> int:
    numbers.execute("INSERT OR IGNORE INTO categories (name) VALUES (?)", (name,))
    (category,) = numbers.execute("SELECT id FROM categories WHERE name = ?", (name,)).fetchone()
    return int(category)


def _in_pixels(box: Box, width: int, height: int) -> dict[str, Any]:
    wide, high = round((box.right - box.left) * width, 2), round((box.bottom - box.top) * height, 2)
    corner = (round(box.left * width, 2), round(box.top * height, 2))
    return {"bbox": [*corner, wide, high], "area": round(wide * high, 2), "iscrowd": 0, "segmentation": []}


def _images(numbers: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    for image_id, uri, width, height in numbers.execute("SELECT id, uri, width, height FROM images ORDER BY id"):
        name = uri.rpartition("/")[2]
        yield {"id": image_id, "file_name": name, "coco_url": uri, "width": width, "height": height}


def _categories(numbers: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    for category, name in numbers.execute("SELECT id, name FROM categories ORDER BY id"):
        yield {"id": category, "name": name, "supercategory": ""}


def _write_list(file: TextIO, elements: Iterator[dict[str, Any]]) -> None:
    for number, element in enumerate(elements):
        file.write(f"{',' if number else ''}\n{json.dumps(element, ensure_ascii=False)}")
