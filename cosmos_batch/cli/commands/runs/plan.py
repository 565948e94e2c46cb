"""`cosmos-batch runs plan`: tell what a run would do, take and cost."""

from typing import Any

import click

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.doctor.checkup import warn_of_findings
from cosmos_batch.cli.runs.options import run_options
from cosmos_batch.cli.runs.plan_report import plan_lines
from cosmos_batch.cli.runs.run_plan import plan_run
from cosmos_batch.cli.runs.run_request import read_run_spec


@click.command(
    cls=CosmosCommand,
    examples=[
        'cosmos-batch runs plan s3://my-bucket/clips/ --prompt "What happens?"',
        "cosmos-batch runs plan clips/ --include '*/front.mp4' --task caption --workers 4",
        "cosmos-batch runs plan requests.jsonl --max-dollars 50 --json",
        'cosmos-batch runs plan --pipeline cosmos3-nano --prompt "A robot pours water." --seeds 1-8',
    ],
)
@run_options
@option("--json", "as_json", is_flag=True, help="Print the plan as one JSON object.")
def command(sources: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Say what a run would do, take and cost, and start nothing.

    A SOURCE is an S3 prefix that ends in /, a folder or a file of this machine, a manifest (.jsonl, - for standard
    input), or the manifest.json of an S3 Inventory. docs/runs.md describes them. What would stop the run is named
    after its plan, as by `cosmos-batch doctor`.
    """
    deployment = deployments.find()
    planned = plan_run(deployment, read_run_spec(deployment, sources, options))
    try:
        if as_json:
            print(planned.estimate.model_dump_json(indent=2))
        else:
            print("\n".join(plan_lines(planned.request.id, planned.estimate)))
        planned.refuse_over_budget()
        warn_of_findings(deployment, planned.request.pipelines)
    finally:
        planned.close()
    return 0
