"""`cosmos-batch console`: look at all runs of a deployment and steer them, in the browser."""

import click

from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.console.serving import serve
from cosmos_batch.cli.stopped_clouds.lookup import find_run_deployments


@click.command(cls=CosmosCommand, examples=["cosmos-batch console", "cosmos-batch console --port 8800 --no-browser"])
@option("--port", type=click.IntRange(0, 65535), default=0, help="Port of the page; default: a free one.")
@option("--no-browser", is_flag=True, help="Print the URL only.")
def command(port: int, no_browser: bool) -> None:
    """Show the runs of the deployment, how far each is, and its answers; cancel, resume and retry them.

    Runs of local clouds that were stopped are shown too.

    The page is served to this machine alone, with your own credentials, until Ctrl-C is pressed.
    """
    from cosmos_batch.cli.console.run_console import console_of_runs

    with console_of_runs(find_run_deployments(), home="") as console:
        serve(console, "All runs", port, no_browser)
