"""`cosmos-batch models put`: a model into the model bucket, for workers that cannot reach the Hub."""

import argparse
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.errors import CliError
from cosmos_batch.state import RecordedRevision, Revisions
from cosmos_batch.store.hub_to_backup import LOGIN, copy_hub_model_to_backup
from cosmos_batch.store.huggingface import Hub

STEPS = 20  # lines of progress


def put(arguments: argparse.Namespace) -> int:
    """Download the model from the Hub and upload it, unless its newest commit is in the bucket."""
    clients = deployments.environment_clients()
    bucket = deployments.model_bucket(clients)
    with tempfile.TemporaryDirectory(prefix="cosmos-batch-") as scratch:
        uploaded = copy_hub_model_to_backup(
            arguments.name, bucket, clients("s3"), Path(scratch), Percents("downloaded"), Percents("uploaded")
        )
    print(f"{arguments.name} is in s3://{bucket}" + ("." if uploaded else " already, at its newest commit."))
    return 0


def update(arguments: argparse.Namespace) -> int:
    """Resolve the recorded tags and branches on the Hub again. Workers and jobs follow within minutes."""
    deployment = deployments.find()
    for pipeline in arguments.pipelines or deployment.pipelines:
        if pipeline not in deployment.pipelines:
            raise CliError(f"{pipeline} is not deployed here.", f"Name one of: {', '.join(deployment.pipelines)}.")
        revisions = deployment.workers(pipeline).revisions
        recorded = revisions.list()
        for one in recorded:
            print(f"{pipeline}: {_moved(revisions, one)}")
        if not recorded:
            print(f"{pipeline}: nothing is recorded; its first worker records what it loads")
    return 0


def _moved(revisions: Revisions, recorded: RecordedRevision) -> str:
    """Move one record, and say from where to where."""
    model, revision = recorded.model, recorded.revision
    commit = Hub(model, None, LOGIN).resolve(revision).commit
    revisions.record(model, revision, commit, unless_since=datetime.now(UTC))
    changed = "as before" if commit == recorded.commit else f"before: {recorded.commit}"
    return f"{model}@{revision} is {commit} ({changed})"


class Percents:
    """Says how far a copy is: a line for every twentieth."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._said = 0

    def __call__(self, done: int, total: int) -> None:
        step = done * STEPS // max(total, 1)
        if step > self._said:
            self._said = step
            print(f"{self._what} {step * 100 // STEPS} % of {total / 1e9:,.2f} GB", file=sys.stderr, flush=True)
