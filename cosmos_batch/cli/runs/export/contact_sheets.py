"""Export a contact sheet for each prompt of a run of generators: all that was made of it, side by side."""

import sqlite3
import tempfile
from collections.abc import Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple

from cosmos_batch.catalogue.formats import extension
from cosmos_batch.cli.runs.export.media_download import download_media, made_media
from cosmos_batch.cli.runs.ordered_threads import in_parallel
from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.runs import ResultLine
from cosmos_batch.viewing.prompt_sheet import TILES_LIMIT, Tile, write_prompt_sheet


class _GeneratedFile(NamedTuple):
    """A file that was generated from a prompt, and the id of the item that generated it."""

    prompt: str
    item: str
    uri: str


def write(run: StoredRun, lines: Iterator[ResultLine], path: Path) -> list[str]:
    """Write `prompt-0001.png` and so on into a new folder, in the order of the prompts' first items."""
    path.mkdir(parents=True)
    run_prompt = run.request().prompt or "(no prompt)"
    left_out, notes, prompts = 0, dict[str, None](), 0
    for prompts, (prompt, files) in enumerate(_by_prompt(_generated_files(lines, run_prompt)), start=1):
        tiles = (tile for tile in in_parallel(lambda file: _tile(run, file), files))
        page = 0
        while some := list(islice(tiles, TILES_LIMIT)):
            page += 1
            left_out += some.count(None)
            if shown := [tile for tile in some if tile is not None]:
                name = f"prompt-{prompts:04}{f'-{page}' if page > 1 else ''}.png"
                notes |= dict.fromkeys(write_prompt_sheet(prompt, shown, path / name))
    gone = [f"{counted(left_out, 'file')} left out: gone or damaged."] if left_out else []
    return [f"{counted(prompts, 'prompt')}", *gone, *notes]


def _by_prompt(files: Iterator[_GeneratedFile]) -> Iterator[tuple[str, Iterator[_GeneratedFile]]]:
    """Yield each prompt with its files. They are sorted on this machine's disk, because there may be a million."""
    with sqlite3.connect("") as database:  # SQLite's name for a temporary file
        database.execute("CREATE TABLE made (prompt TEXT, item TEXT, uri TEXT, number INTEGER)")
        rows = ((*file, number) for number, file in enumerate(files))
        database.executemany("INSERT INTO made VALUES (?, ?, ?, ?)", rows)
        sorted_files = database.execute(
            "SELECT prompt, item, uri FROM made ORDER BY MIN(number) OVER (PARTITION BY prompt), number"
        )
        yield from groupby(map(_GeneratedFile._make, sorted_files), key=lambda file: file.prompt)


def _generated_files(lines: Iterator[ResultLine], run_prompt: str) -> Iterator[_GeneratedFile]:
    """Yield the image or the video of each item that made one; previews and other files beside it are left out.

    `run_prompt` is the prompt of items that have none of their own.
    """
    for line in lines:
        if line.error is None and (uri := made_media(line)) is not None:
            yield _GeneratedFile(line.prompt or run_prompt, line.id, uri)


def _tile(run: StoredRun, file: _GeneratedFile) -> Tile | None:
    """Return the tile of a file; None if it is gone or damaged."""
    with tempfile.TemporaryDirectory(prefix="cosmos-batch-") as scratch:
        media = Path(scratch) / f"made{extension(file.uri)}"
        try:
            return Tile.read(media, file.item) if download_media(run, file.uri, media) else None
        except Failure:
            return None
