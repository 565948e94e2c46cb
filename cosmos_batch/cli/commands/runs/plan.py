"""`cosmos-batch runs plan`: what a run would do, take and cost."""

from typing import Any

import click

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.command_line import CosmosCommand
from cosmos_batch.cli.input_checks import chosen_pipeline
from cosmos_batch.cli.options import reasoner_options
from cosmos_batch.cli.reasoner_request import read_reasoner_request


@click.command(cls=CosmosCommand, examples=['cosmos-batch runs plan s3://my-bucket/clips/ --prompt "What happens?"'])
@click.argument("sources", metavar="SOURCE ...", type=click.Path(), nargs=-1, required=True)
@reasoner_options
def command(
    sources: tuple[str, ...], prompt: str | None, pipeline: str | None, system_prompt: str | None, **options: Any
) -> int:
    """Say what a run over the files of each SOURCE would do, and start nothing."""
    read_reasoner_request(prompt, system_prompt, options)
    deployment = deployments.find()
    print(f"{len(sources)} sources for {chosen_pipeline(pipeline, deployment.pipelines)}")
    return 0
