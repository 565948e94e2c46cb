"""`cosmos-batch models`: bring models into a deployment, and move them to newer commits."""

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import click

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.command_line import CosmosCommand
from cosmos_batch.cli.errors import FAILED, WrongCall, explain
from cosmos_batch.cli.messages import inform, warn
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.model_name import is_commit
from cosmos_batch.state import RecordedRevision, Revisions

STEPS = 20  # lines of progress
# Whatever is recorded was recorded before: the clock of this machine may be behind that of the worker.
ALWAYS = datetime.max.replace(tzinfo=UTC)


@click.group()
def command() -> None:
    """Bring models into a deployment, or move them to another commit."""


@command.command(
    "put",
    short_help="Copy a model to the model bucket.",
    cls=CosmosCommand,
    examples=[
        "cosmos-batch models put nvidia/Cosmos-Reason2-2B",
        "HF_TOKEN=hf_... cosmos-batch models put nvidia/Cosmos-Reason2-8B@main",
    ],
)
@click.argument("name", metavar="ID[@REVISION]")
def put(name: str) -> int:
    """Download a model from Hugging Face to TMPDIR, and upload it to the model bucket.

    It uses HF_TOKEN or the login of `hf`. A model whose newest commit is in the bucket is left as it is.
    """
    from cosmos_batch.store.hub_to_backup import copy_hub_model_to_backup

    clients = deployments.environment_clients()
    bucket = deployments.model_bucket(clients)
    with tempfile.TemporaryDirectory(prefix="cosmos-batch-") as scratch:
        uploaded = copy_hub_model_to_backup(
            name, bucket, clients("s3"), Path(scratch), Percents("downloaded"), Percents("uploaded")
        )
    print(f"{name} is in s3://{bucket}" + ("." if uploaded else " already, at its newest commit."))
    return 0


@command.command(
    "update",
    short_help="Move tags and branches to new commits.",
    cls=CosmosCommand,
    examples=["cosmos-batch models update", "cosmos-batch models update cosmos-reason2-2b"],
)
@click.argument("pipelines", metavar="[PIPELINE]...", nargs=-1)
def update(pipelines: tuple[str, ...]) -> int:
    """Ask Hugging Face which commits the recorded tags and branches are now. Default: of all pipelines.

    Workers and jobs follow within minutes. A model that cannot be read keeps its commit; the exit status is 1 then.
    """
    deployment, status = deployments.find(), 0
    for pipeline in pipelines or deployment.pipelines:
        if pipeline not in deployment.pipelines:
            raise WrongCall(f"{pipeline} is not deployed here.", f"Name one of: {', '.join(deployment.pipelines)}.")
        revisions = deployment.workers(pipeline).revisions
        recorded = [revision for revision in revisions.list() if not is_commit(revision.revision)]
        for revision in recorded:
            try:
                print(f"{pipeline}: {_updated(revisions, revision)}")
            except Failure as failure:  # rows of models that are not configured any more stay
                warn(f"error: {pipeline}: {explain(failure)}")
                status = FAILED
        if not recorded:
            print(f"{pipeline}: nothing is recorded; its first worker records what it loads")
    return status


def _updated(revisions: Revisions, recorded: RecordedRevision) -> str:
    """Record the commit that a tag or branch is now, and return what has changed, in words."""
    from cosmos_batch.store.hub_to_backup import LOGIN
    from cosmos_batch.store.huggingface import Hub

    model, revision = recorded.model, recorded.revision
    commit = Hub(model, None, LOGIN).resolve(revision).commit
    revisions.record(model, revision, commit, unless_since=ALWAYS)
    changed = "as before" if commit == recorded.commit else f"before: {recorded.commit}"
    return f"{model}@{revision} is {commit} ({changed})"


class Percents:
    """Prints the progress of a copy, a line for each twentieth."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._printed = 0

    def __call__(self, done: int, total: int) -> None:
        step = done * STEPS // max(total, 1)
        if step > self._printed:
            self._printed = step
            inform(f"{self._verb} {step * 100 // STEPS} % of {total / 1e9:,.2f} GB")
