"""`cosmos-batch doctor`: find what would stop a run, and name a remedy for each problem."""

import json

import click

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.doctor.checkup import check_up, finding_lines
from cosmos_batch.cli.doctor.findings import Verdict
from cosmos_batch.cli.errors import FAILED
from cosmos_batch.cli.input_checks import chosen_pipeline
from cosmos_batch.cli.options import pipeline_ids


@click.command(
    cls=CosmosCommand,
    examples=["cosmos-batch doctor", "cosmos-batch doctor --pipeline cosmos-reason2-8b", "cosmos-batch doctor --json"],
)
@option(
    "--pipeline", "pipelines", metavar="ID", multiple=True, shell_complete=pipeline_ids(),
    help="Check this one only. May be given again.",
)  # fmt: skip
@option("--json", "as_json", is_flag=True, help="Print each finding as a JSON object on a line of its own.")
def command(pipelines: tuple[str, ...], as_json: bool) -> int:
    """Check models, quotas, memory, buckets and capacity at once, within ten seconds, and say what to do.

    The exit status is 1 if something would stop a run.
    """
    deployment = deployments.find()
    names = [chosen_pipeline(name, deployment.pipelines) for name in pipelines] or deployment.pipelines
    findings = check_up(deployment, names)
    for finding in findings:
        print(json.dumps(finding.model_dump(mode="json")) if as_json else "\n".join(finding_lines(finding)))
    return FAILED if any(finding.verdict == Verdict.PROBLEM for finding in findings) else 0
