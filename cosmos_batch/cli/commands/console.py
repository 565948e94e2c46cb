"""`cosmos-batch console`: look at all runs of a deployment and steer them, in the browser."""

import click

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.console.serving import serve


@click.command(cls=CosmosCommand, examples=["cosmos-batch console", "cosmos-batch console --port 8800 --no-browser"])
@option("--port", type=click.IntRange(0, 65535), default=0, help="Port of the page; default: a free one.")
@option("--no-browser", is_flag=True, help="Print the URL only.")
def command(port: int, no_browser: bool) -> None:
    """Show the runs of the deployment, how far each is, and its answers; cancel, resume and retry them.

    The page is served to this machine alone, with your own credentials, until Ctrl-C is pressed.
    """
    from cosmos_batch.cli.console.run_console import console_of_runs

    with console_of_runs(deployments.find(), home="") as console:
        serve(console, "All runs", port, no_browser)
