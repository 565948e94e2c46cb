"""`cosmos-batch run`: answer files with the whole system on this machine."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from cosmos_batch.catalogue.engines import ENDPOINT
from cosmos_batch.cli import configuration, progress
from cosmos_batch.cli.answer_overlay import draw_overlay, overlay_option
from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.commands.submit import submit_files, with_uploaded_inputs
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError, explain
from cosmos_batch.cli.input_checks import File, chosen_reasoner
from cosmos_batch.cli.job_result import JobResult, print_or_save, read_job_result
from cosmos_batch.cli.json_lines import print_result_line, refuse_with_json, result_json_option
from cosmos_batch.cli.local_deployment import local_deployment
from cosmos_batch.cli.messages import warn
from cosmos_batch.cli.model_access import accessible_config, check_access, check_server
from cosmos_batch.cli.options import reasoner_options
from cosmos_batch.cli.output import OutputTarget, output_options, output_target
from cosmos_batch.cli.own_cloud_checks import refuse_before_own_cloud
from cosmos_batch.cli.process_pool import process_pool
from cosmos_batch.cli.reasoner_request import ReasonerRequest, read_reasoner_request
from cosmos_batch.cli.request_checks import Problems, check_folders, checked_objects, checked_request
from cosmos_batch.cli.robot_inputs import episode_options, typed_inputs, with_episodes
from cosmos_batch.cli.runs.file_run import answer_files, is_many_files, read_file_run
from cosmos_batch.cli.runs.sources import is_single_file
from cosmos_batch.cli.uploads import Uploads
from cosmos_batch.planning.configuration import load_config

MODEL_HELP = "Hugging Face id, or ID@REVISION, or a checkpoint's folder."


@click.command(
    cls=CosmosCommand,
    examples=[
        'cosmos-batch run clip.mp4 --prompt "What happens?"',
        "cosmos-batch run *.mp4 --task caption --output answers/",
        "cosmos-batch run clips/ --task caption --skip-invalid --output answers/",
        'cosmos-batch run clip.mp4 --task 2d-grounding --prompt "the red cube" --overlay --output answers/',
        "cosmos-batch run pusht/ --episode 0-2 --camera observation.images.front --task caption",
        "cosmos-batch run clip.mp4 --model nvidia/Cosmos-Reason2-2B --output answer.json --force",
    ],
)
@click.argument("files", metavar="FILE|FOLDER|s3://... ...", type=click.Path(), nargs=-1, required=True)
@reasoner_options
@episode_options
@option("--model", metavar="ID|FOLDER", type=click.Path(), help=MODEL_HELP)
@option("--endpoint", metavar="URL", help="Ask this server of OpenAI's protocol, for --model if named.")
@option("--skip-invalid", is_flag=True, help="Leave out files that cannot be used, and answer the others.")
@result_json_option
@output_options()
@overlay_option
def command(
    files: tuple[str, ...],
    prompt: str | None,
    pipeline: str | None,
    system_prompt: str | None,
    model: str | None,
    endpoint: str | None,
    skip_invalid: bool,
    episodes: tuple[str, ...],
    cameras: tuple[str, ...],
    output: str | None,
    force: bool,
    overlay: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Answer files on this machine, print the documents, and stop what was started.

    Several files, a folder or a manifest are a run (see `cosmos-batch runs`), whose plan is shown first. A local cloud
    that stands is used as it stands; with --model or --endpoint, the command starts one of its own. Where config.json's
    model is neither on this machine nor downloadable, the demo's small model answers, and the command says so.
    """
    refuse_with_json(as_json, overlay=overlay)
    request = read_reasoner_request(prompt, system_prompt, options)
    problems = Problems()
    names = with_episodes(files, episodes, cameras)
    are_many = is_many_files(names)
    inputs = checked_request([name for name in names if is_single_file(name)], request, problems)
    sources = [name for name in names if not is_single_file(name)]
    check_folders(names, request, problems, skip_invalid)
    problems.report(len(inputs) + len(sources), skip_invalid)
    target = output_target(output, force, "a document for each file" if are_many else None)
    changes = _changes(model, endpoint)
    config_file = partial(_config_file, pipeline, changes, [*sources, *map(str, inputs)], request, skip_invalid)
    with (
        process_pool() as pool,
        local_deployment(pool, config_file, reuse=not changes, pipeline=pipeline) as deployment,
    ):
        if are_many:
            question = {"prompt": prompt, "pipeline": pipeline, "system_prompt": system_prompt, **options}
            further = with_uploaded_inputs(Uploads(deployment), request).parameters.more_inputs
            question["more_inputs"] = tuple(further or ())
            spec = read_file_run(
                deployment,
                [*sources, *map(str, inputs)],
                question,
                skip_invalid,
                typed_inputs(files, episodes, cameras),
            )
            results = answer_files(deployment, spec, target)
        else:
            chosen = chosen_reasoner(pipeline, deployment.pipelines)
            inputs = checked_objects(deployment, inputs, request, chosen, problems)
            problems.raise_all()
            results = iter([answer(deployment, inputs[0], request, pipeline)])
        status = 0
        for result in results:
            status = max(status, _print_result(deployment, result, target, as_json))
            if overlay:
                status = max(status, draw_overlay(deployment, result, target, force))
        return status


def answer(deployment: Deployment, file: File, request: ReasonerRequest, pipeline: str | None) -> JobResult:
    """Start a job for a file, show its stages, and return its result."""
    [job] = submit_files(deployment, [file], request, chosen_reasoner(pipeline, deployment.pipelines))
    with progress.display() as display:
        snapshot = progress.follow(deployment, job.job_id, job.at, display)
    assert snapshot.execution is not None, "an execution that has ended exists"
    return replace(read_job_result(snapshot.execution, snapshot.row), job_id=job.job_id)


def _print_result(deployment: Deployment, result: JobResult, target: OutputTarget | None, as_json: bool) -> int:
    """Print or save a result, and return the exit status. An error is printed, because other results are to come."""
    try:
        return (print_result_line if as_json else print_or_save)(deployment, result, target)
    except CliError as error:
        warn(f"error: {explain(error)}")
        return error.exit_status


def _config_file(
    pipeline: str | None, changes: dict[str, Any], names: Sequence[str], request: ReasonerRequest, skip_invalid: bool
) -> Path:
    """Return the configuration to deploy to a cloud of this command's own, with changes of its reasoner.

    Raises WrongCall for what that reasoner could not be asked there, and where its model is not available.
    """
    config = load_config(configuration.CONFIG)
    chosen = configuration.enabled_reasoner(config, pipeline)
    engine, hosts = changes.get("engine", chosen.engine), config.app.cosmos_batch.storage.input_hosts
    refuse_before_own_cloud(names, request, chosen.pipeline.id, engine, hosts, skip_invalid)
    if not changes:
        return accessible_config([chosen])
    path = configuration.with_entry(chosen.pipeline, changes)
    if "endpoint" in changes:
        check_server(changes["endpoint"]["url"])
    check_access(path, configuration.enabled_pipeline(load_config(path), chosen.pipeline.id))
    return path


def _changes(model: str | None, endpoint: str | None) -> dict[str, Any]:
    """Return what the options change in the pipeline's configuration. Raises WrongCall."""
    if endpoint:
        return {"engine": ENDPOINT, "endpoint": {"url": endpoint, **({"model": model} if model else {})}}
    return {"model": configuration.checked_model(model)} if model else {}
