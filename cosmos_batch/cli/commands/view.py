"""`cosmos-batch view`: look at documents beside their videos and images, in the browser."""

from pathlib import Path

import click

from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.errors import CliError, WrongCall
from cosmos_batch.cli.messages import inform, warn
from cosmos_batch.console.scope import Scope

EXPORT = "Static files"


@click.command(
    cls=CosmosCommand,
    examples=[
        "cosmos-batch view answers/",
        "cosmos-batch view answers/clip_CosmosReason_20260101-120000.json",
        "cosmos-batch view answers/ --port 8800 --no-browser",
        "cosmos-batch view answers/ --export page/ --media",
    ],
)
@click.argument("path", type=click.Path(path_type=Path))
@option("--port", type=click.IntRange(0, 65535), default=0, help="Port of the page; default: a free one.")
@option("--no-browser", is_flag=True, help="Print the URL only.")
@option(
    "--export",
    type=click.Path(path_type=Path),
    section=EXPORT,
    metavar="DIR",
    help="Write the page there as files that open without a server.",
)
@option("--media", is_flag=True, section=EXPORT, help="Copy the videos and images too, not only their posters.")
def command(path: Path, port: int, no_browser: bool, export: Path | None, media: bool) -> None:
    """Show documents of a folder, or one of them, beside the videos and images that they are about.

    The page is served to this machine alone until Ctrl-C is pressed.
    """
    if media and export is None:
        raise WrongCall("--media belongs to --export.", "Name a folder: --export DIR --media")
    scope = Scope.of(path)
    if export is None:
        _serve(scope, port, no_browser)
    else:
        _export(scope, export, media)


def _serve(scope: Scope, port: int, no_browser: bool) -> None:
    from cosmos_batch.console.application import Console
    from cosmos_batch.console.guard import Session
    from cosmos_batch.console.server import listening, make_server, open_browser, url_of

    with listening(port) as socket, Console(scope) as console:
        session = Session(socket.getsockname()[1])
        url = url_of(socket, session)
        warn(f"Showing {scope.title}: {url}")
        inform("Ctrl-C ends it.")
        if not no_browser:
            open_browser(url, console.scratch)
        try:
            make_server(console, session).run(sockets=[socket])
        except KeyboardInterrupt:
            inform("Ended.")


def _export(scope: Scope, target: Path, media: bool) -> None:
    from cosmos_batch.console.export import Export

    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise WrongCall(f"--export {target} is not empty.", "Name a folder that is new or empty.")
    with Export(scope) as export:
        if not export.documents:
            raise CliError(f"{scope.title} holds no documents.", "Name the folder of results.")
        files, size = export.media_size()
        inform(f"{export.documents:,} documents, {files:,} media files of {size / 1e6:,.1f} MB")
        if not media:
            inform("Only posters of the media are written; --media copies the files too.")
        export.write(target, media, inform)
    click.echo(str(target / "index.html"))
