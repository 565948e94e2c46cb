"""S3 with more objects than a test could put into a real one."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any


class ManyObjects:
    """A fake of S3 with any number of objects, none of which can be read."""

    exceptions = SimpleNamespace(NoSuchKey=OSError)

    def __init__(self, count: int) -> None:
        self._count = count

    def get_paginator(self, _: str) -> "ManyObjects":
        return self

    def paginate(self, **_: object) -> Iterator[dict[str, Any]]:
        for start in range(0, self._count, 1000):
            numbers = range(start, min(start + 1000, self._count))
            yield {"Contents": [{"Key": f"clips/{number:07}.mp4", "Size": 7, "ETag": '"e"'} for number in numbers]}

    def put_object(self, **_: object) -> None:
        """Forget what is written."""

    def get_object(self, **_: object) -> dict[str, Any]:
        raise OSError("there is nothing")
