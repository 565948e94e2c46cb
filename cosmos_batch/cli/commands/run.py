"""`cosmos-batch run`: one file through the whole system on this machine."""

import argparse
from pathlib import Path
from typing import Any

from cosmos_batch.cli import configuration, input_checks, progress
from cosmos_batch.cli.cloud import default_home
from cosmos_batch.cli.commands.result import print_outcome
from cosmos_batch.cli.commands.submit import start_on, with_more_inputs
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.job_result import JobResult, read_document, read_job_result
from cosmos_batch.cli.local_deployment import local_deployment
from cosmos_batch.cli.process_pool import process_pool
from cosmos_batch.cli.reasoner_request import ReasonerRequest, read_reasoner_request
from cosmos_batch.cli.uploads import Uploads
from cosmos_batch.contract.entries import ENDPOINT
from cosmos_batch.planning.configuration import load_config


def run(arguments: argparse.Namespace) -> int:
    """Answer one file. A standing local cloud is used as it stands; where a model or a server is named, the command has
    a cloud of its own."""
    path, question = input_checks.checked_input(arguments.file), read_reasoner_request(arguments)
    changes = _changes(arguments)

    def config_file() -> Path:
        pipeline = configuration.enabled_pipeline(load_config(configuration.CONFIG), arguments.pipeline)
        if not changes:
            return configuration.CONFIG
        return configuration.with_entry(pipeline.pipeline, changes, default_home())

    with process_pool() as pool, local_deployment(pool, config_file, reuse=not changes) as deployment:
        ended = ask(deployment, path, question, arguments.pipeline)
        if arguments.output and ended.document_uri:
            save(deployment, ended.document_uri, Path(arguments.output))
        return print_outcome(deployment, ended)


def _changes(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the command line says of the pipeline. Raises CliError."""
    if arguments.endpoint:
        named = {"model": arguments.model} if arguments.model else {}
        return {"engine": ENDPOINT, "endpoint": {"url": arguments.endpoint, **named}}
    return {"model": configuration.checked_model(arguments.model)} if arguments.model else {}


def ask(deployment: Deployment, path: Path, question: ReasonerRequest, pipeline: str | None) -> JobResult:
    """Upload a file with its question, and show what happens until it is answered."""
    uploads = Uploads(deployment)
    question = with_more_inputs(uploads, question)
    chosen = input_checks.chosen_pipeline(pipeline, deployment.pipelines)
    submitted = start_on(deployment, uploads, path, question, chosen)
    with progress.display() as display:
        sight = progress.follow(deployment, submitted.job_id, submitted.at, display)
    assert sight.execution is not None, "an execution that has ended exists"
    return read_job_result(sight.execution, sight.row)


def save(deployment: Deployment, uri: str, path: Path) -> None:
    """Write a document to a file of this machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(read_document(deployment, uri), encoding="utf-8")
