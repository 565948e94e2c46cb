"""`python -m cosmos_batch.demo checkpoint|cosmos3|generator|clip|image PATH`."""

import argparse
from pathlib import Path

from cosmos_batch.demo.checkpoint import build_random_checkpoint, build_random_cosmos3
from cosmos_batch.demo.generator import build_random_generator
from cosmos_batch.demo.media import sample_clip, sample_image

_MAKERS = {
    "checkpoint": build_random_checkpoint,
    "cosmos3": build_random_cosmos3,
    "generator": build_random_generator,
    "clip": sample_clip,
    "image": sample_image,
}


def main() -> None:
    """Make a checkpoint, a clip or an image, and print its path."""
    parser = argparse.ArgumentParser(prog="python -m cosmos_batch.demo", description=__doc__)
    parser.add_argument("what", choices=_MAKERS)
    parser.add_argument("path", type=Path, help="folder to build a checkpoint in, or file to write")
    arguments = parser.parse_args()
    print(_MAKERS[arguments.what](arguments.path))


if __name__ == "__main__":
    main()
