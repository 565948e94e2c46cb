"""`cosmos-batch runs start`: start a run after its plan was agreed to."""

from typing import Any

import click

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.commands.runs.watch import watch
from cosmos_batch.cli.runs.confirm_and_start import start_run
from cosmos_batch.cli.runs.options import run_options
from cosmos_batch.cli.runs.run_request import read_run_spec


@click.command(
    cls=CosmosCommand,
    examples=[
        'cosmos-batch runs start clips/ --prompt "What happens?" --max-dollars 50',
        "cosmos-batch runs start s3://my-bucket/clips/ --task caption --yes --watch",
        "cosmos-batch runs start requests.jsonl --name monday --yes",
    ],
)
@run_options
@option("--yes", is_flag=True, help="Do not ask whether to proceed.")
@option("--watch", "follow", is_flag=True, help="Follow it until it has ended.")
@option("--json", "as_json", is_flag=True, help="Print the id and the plan as one JSON object.")
def command(sources: tuple[str, ...], yes: bool, follow: bool, as_json: bool, **options: Any) -> int:
    """Show the plan of a run over the files of each SOURCE, ask whether to proceed, and start it.

    What was answered before costs nothing: a run that is started again, after whatever interrupted it, goes on.
    """
    deployment = deployments.find()
    run = start_run(deployment, read_run_spec(deployment, sources, options), yes, as_json)
    return watch(deployment, run) if follow else 0
