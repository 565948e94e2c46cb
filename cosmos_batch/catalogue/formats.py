"""The file formats that pipelines accept, by their file name extensions."""

from typing import Literal

VIDEO_EXTENSIONS = (".mp4", ".mov", ".avi", ".mkv", ".webm")
IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp")
EXTENSIONS = VIDEO_EXTENSIONS + IMAGE_EXTENSIONS

Medium = Literal["image", "video"]  # the kind of a file
