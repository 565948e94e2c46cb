"""`cosmos-batch view`: look at documents beside their videos and images, in the browser."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cosmos_batch.catalogue.formats import EXTENSIONS, extension
from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.console.serving import serve
from cosmos_batch.cli.errors import CliError, WrongCall, explain
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.output import OutputTarget, new_folder
from cosmos_batch.cli.runs.s3_inputs import listed
from cosmos_batch.cli.stopped_clouds.lookup import find_run_deployments
from cosmos_batch.console.scope import Scope
from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.runs import RUN_ID
from cosmos_batch.contract.s3 import S3Location

if TYPE_CHECKING:
    from cosmos_batch.cli.console.prefix_collection import PrefixCollection
    from cosmos_batch.console.console import Console

EXPORT = "Static files"


@click.command(
    cls=CosmosCommand,
    examples=[
        "cosmos-batch view answers/",
        "cosmos-batch view answers/clip_CosmosReason_20260101-120000.json",
        "cosmos-batch view answers/ --port 8800 --no-browser",
        "cosmos-batch view answers/ --export page/ --media",
        "cosmos-batch view RUN",
        "cosmos-batch view s3://my-bucket/clips/",
    ],
)
@click.argument("opened", metavar="FOLDER|FILE|RUN|s3://...", type=click.Path())
@option("--port", type=click.IntRange(0, 65535), default=0, help="Port of the page; default: a free one.")
@option("--no-browser", is_flag=True, help="Print the URL only.")
@option(
    "--export",
    type=click.Path(),
    section=EXPORT,
    metavar="DIR",
    help="Write the page there as files that open without a server.",
)
@option("--media", is_flag=True, section=EXPORT, help="Copy the videos and images too, not only their posters.")
def command(opened: str, port: int, no_browser: bool, export: str | None, media: bool) -> None:
    """Show the documents of a folder, or one of them, beside the videos and images that they are about.

    A run and the documents below a prefix in S3 are shown in the same way, with your own credentials.

    The page is served to this machine alone until Ctrl-C is pressed.
    """
    if media and export is None:
        raise WrongCall("--media belongs to --export.", "Name a folder: --export DIR --media")
    target = None if export is None else new_folder(export)
    with _opened(opened) as console:
        if target is None:
            serve(console, f"Showing {opened}", port, no_browser)
        else:
            _export(console, opened, target, media)


def _opened(name: str) -> "Console":
    """Return the console of what a person names: a prefix in S3, a file or folder of this machine, or else a run."""
    from cosmos_batch.console.console import Console

    if name.startswith("s3://"):
        return Console.of_collection(_prefix(name))
    if Path(name).expanduser().is_file() and extension(name) not in (".json", *EXTENSIONS):
        raise WrongCall(
            f"{name} is no document, video or image: documents are files of JSON.",
            "Name a document, the file that it is about, or a folder of results.",
        )
    if Path(name).expanduser().exists() or not re.fullmatch(RUN_ID, name):
        return Console.of_folder(Scope.of(Path(name)))
    from cosmos_batch.cli.console.run_console import console_of_runs

    try:
        return console_of_runs(find_run_deployments(), name)
    except Exception as error:
        if (why := explain(error)) is None:
            raise
        raise WrongCall(
            f"{name} is no folder and no file of this machine, and no run: {why}",
            "Name a folder with results, or a run.",
        ) from error


def _prefix(uri: str) -> "PrefixCollection":
    """Return the collection of a prefix, which is listed with the person's own credentials. Raises CliError."""
    from cosmos_batch.cli.console.prefix_collection import PrefixCollection

    bucket, _, key = uri.removeprefix("s3://").partition("/")
    if not bucket:
        raise WrongCall(f"{uri} names no bucket.", "Write it like s3://bucket/prefix/.")
    s3, prefix = deployments.environment_clients()("s3"), S3Location(bucket, key)
    next(listed(s3, prefix), None)
    return PrefixCollection(s3, prefix)


def _export(console: "Console", name: str, target: OutputTarget, media: bool) -> None:
    from cosmos_batch.console.static_export import StaticExport

    view = console.view(console.home)
    assert view is not None, "it was opened"
    view.scan.wait()
    export = StaticExport(view)
    if not export.documents:
        raise CliError(f"{name} holds no documents.", "Name the folder of results, or a run that has answers.")
    files, size = export.media_size()
    inform(f"{counted(export.documents, 'document')}, {counted(files, 'media file')} of {size / 1e6:,.1f} MB")
    if not media:
        inform("Only posters of the media are written; --media copies the files too.")
    page = target.save("", lambda folder: export.write(folder, media, inform))
    click.echo(str(page / "index.html"))
