"""Distribute the files of folders over a few folders of about one size, each of which becomes a layer of an image.

A host downloads the layers of an image at the same time, and a package manager makes one layer of everything:

    python layers.py 5 /layers / /opt/venv

moves what is in `/opt/venv` into `/layers/1` to `/layers/5`, each file below its path from `/`. The Python of an image
runs it while that is built, in the step that installed the files: what an earlier step installed stays in its layer.
"""

import shutil
import sys
from collections import Counter
from pathlib import Path


def distribute(count: int, layers: Path, root: Path, folders: list[Path]) -> None:
    """Move the contents of `folders`, which are below `root`, into `count` folders of `layers`.

    The same files are always distributed in the same way, so that a build from the same lock makes the same layers.
    """
    sizes = _sizes(folders)
    limit = sum(sizes[folder] for folder in folders) // count
    parts = [part for folder in folders for part in _parts(folder, sizes, limit)]
    filled = [0] * count
    for part in sorted(parts, key=lambda part: (-sizes[part], str(part))):
        emptiest = filled.index(min(filled))
        filled[emptiest] += sizes[part]
        _move(part, layers / str(emptiest + 1), root)
    for number in range(count):
        (layers / str(number + 1)).mkdir(parents=True, exist_ok=True)


def _sizes(folders: list[Path]) -> Counter[Path]:
    """Return the bytes of every file, and of every folder with all that it holds. A link counts without its target."""
    sizes: Counter[Path] = Counter()
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_symlink() or path.is_file():
                size = path.lstat().st_size
                sizes.update(dict.fromkeys([path, *path.parents], size))
    return sizes


def _parts(path: Path, sizes: Counter[Path], limit: int) -> list[Path]:
    """Split a folder that is larger than a layer shall be. A file or an empty folder is one part whatever its size."""
    children = sorted(path.iterdir()) if path.is_dir() and not path.is_symlink() else []
    if not children or sizes[path] <= limit:
        return [path]
    return [part for child in children for part in _parts(child, sizes, limit)]


def _move(path: Path, layer: Path, root: Path) -> None:
    for folder in reversed(path.relative_to(root).parents):
        if not (layer / folder).exists():
            (layer / folder).mkdir(parents=True)
            shutil.copystat(root / folder, layer / folder)
    shutil.move(path, layer / path.relative_to(root))


if __name__ == "__main__":
    distribute(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), [Path(folder) for folder in sys.argv[4:]])
