"""The file formats that pipelines accept, by their file name extensions."""

from typing import Literal

# A GIF is a video, also one of a single picture: FFmpeg reads it as such. An animated WebP is an image by its name, and
# is shown to a model as a video.
VIDEO_EXTENSIONS = (".mp4", ".mov", ".avi", ".mkv", ".webm", ".m4v", ".ts", ".gif")
IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".heic")
EXTENSIONS = VIDEO_EXTENSIONS + IMAGE_EXTENSIONS
ACTION_EXTENSIONS = (".json",)  # of a file with the actions of a robot

Medium = Literal["image", "video"]  # the kind of a file


def extension(name: str) -> str:
    """Return the extension of a file name or key in lower case with its dot, or "" if there is none."""
    stem, dot, ending = name.rsplit("/", 1)[-1].rpartition(".")
    return f".{ending.lower()}" if dot and stem else ""


def medium_of(*names: str) -> Medium:
    """Return "video" if any of the named files is one by its extension, else "image".

    Planning never looks into a file; the worker reads each as what its content is.
    """
    return "image" if all(extension(name) in IMAGE_EXTENSIONS for name in names) else "video"
