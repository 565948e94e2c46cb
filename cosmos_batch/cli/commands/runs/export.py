"""`cosmos-batch runs export`: save the answers of a run as one file for another program."""

from collections.abc import Iterator

import click

from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.output import OutputTarget, new_folder, output_target
from cosmos_batch.cli.runs.export.formats import FORMATS, ExportFormat
from cosmos_batch.cli.runs.stored_run import StoredRun, stored_run
from cosmos_batch.cli.stopped_clouds.lookup import find_with_run
from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.runs import ResultLine


@click.command(
    cls=CosmosCommand,
    examples=[
        "cosmos-batch runs export RUN --format parquet --output answers.parquet",
        "cosmos-batch runs export RUN --format csv --output answers.csv --force",
        "cosmos-batch runs export RUN --format fiftyone --output dataset/",
    ],
)
@click.argument("run", metavar="RUN")
@option(
    "--format", "name", type=click.Choice(list(FORMATS)), required=True,
    help="; ".join(f"{name}: {one.description}" for name, one in FORMATS.items()) + ".",
)  # fmt: skip
@option(
    "--output",
    metavar="PATH",
    type=click.Path(),
    required=True,
    help="Save there; in a folder, as RUN with the format's ending.",
)
@option("--force", is_flag=True, help="Replace a file that exists. Without it, it is kept.")
def command(run: str, name: str, output: str, force: bool) -> int:
    """Save the answers and errors of a run as one table, list or dataset.

    A run that goes on is exported as far as it is.
    """
    chosen = FORMATS[name]
    target = _target(chosen, output, force)
    objects = stored_run(find_with_run(run), run)
    objects.request()
    exported = _Counted(objects.lines())
    notes: list[str] = []
    path = target.save(f"{run}{chosen.ending}", lambda path: notes.extend(chosen.write(objects, iter(exported), path)))
    print(path)
    for note in [f"{counted(exported.count, 'item')} of {run}", *notes, *_what_is_missing(objects, exported.count)]:
        inform(note)
    return 0


class _Counted:
    """Counts lines as they are taken."""

    def __init__(self, lines: Iterator[ResultLine]) -> None:
        self._lines = lines
        self.count = 0

    def __iter__(self) -> Iterator[ResultLine]:
        for line in self._lines:
            self.count += 1
            yield line


def _target(chosen: ExportFormat, output: str, force: bool) -> OutputTarget:
    """Return where to save. Raises WrongCall where something is there; a folder is never replaced."""
    if chosen.ending:
        target = output_target(output, force, None)
        assert target is not None, "--output is required"
        return target
    return new_folder(output)


def _what_is_missing(objects: StoredRun, exported: int) -> list[str]:
    """Return a note about the items that have no line yet; empty if there are none."""
    items = sum(shard.items for shard in objects.shards())
    if exported >= items:
        return []
    return [
        f"Not in it: {items - exported:,} of {counted(items, 'item')}, which have not ended, or whose shard has not. "
        f"Export again later; `cosmos-batch runs watch {objects.run}` shows how far it is."
    ]
