"""Show a picture in a terminal that has pictures (the Sixel or Kitty protocol)."""

import sys
from pathlib import Path

from rich.console import Console


def show_picture(path: Path) -> bool:
    """Print the picture where the terminal can show one, and return whether it could.

    `textual_image` asks the terminal what it can show when it is imported, and waits a moment for the answer.
    """
    if not sys.stdout.isatty():
        return False
    from textual_image.renderable import Image, SixelImage, TGPImage

    if Image not in (SixelImage, TGPImage):
        return False
    Console().print(Image(path))
    return True
