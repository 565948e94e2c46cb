"""The file formats that pipelines accept, by their file name extensions."""

from typing import Literal

VIDEO_EXTENSIONS = (".mp4", ".mov", ".avi", ".mkv", ".webm")
IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp")
EXTENSIONS = VIDEO_EXTENSIONS + IMAGE_EXTENSIONS

Medium = Literal["image", "video"]  # the kind of a file


def extension(name: str) -> str:
    """Return the extension of a file name or key in lower case with its dot, or "" if there is none."""
    stem, dot, ending = name.rsplit("/", 1)[-1].rpartition(".")
    return f".{ending.lower()}" if dot and stem else ""


def medium_of(*names: str) -> Medium:
    """Return "video" if any of the named files is one by its extension, else "image".

    The worker compares the content of each file with its name.
    """
    return "image" if all(extension(name) in IMAGE_EXTENSIONS for name in names) else "video"
