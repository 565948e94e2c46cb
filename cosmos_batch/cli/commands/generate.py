"""`cosmos-batch generate`: make an image, a video, sound or actions, on this machine or wherever the shell points."""

import json
import sys
import tempfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.catalogue.generator_abilities import COSMOS_GUARDRAIL
from cosmos_batch.catalogue.pipelines import Pipeline, pipeline_named
from cosmos_batch.cli import configuration, progress
from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.commands.submit import Submitted, start
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.generation_checks import (
    refuse_objects,
    refuse_objects_in_own_cloud,
    refuse_unplannable,
    refuse_unsettled,
)
from cosmos_batch.cli.generation_request import GenerationRequest, read_generation_request
from cosmos_batch.cli.input_checks import digest, is_generator
from cosmos_batch.cli.job_result import JobResult, UploadedFile, print_or_save, read_document, read_job_result
from cosmos_batch.cli.json_lines import print_result_line
from cosmos_batch.cli.local_deployment import local_deployment
from cosmos_batch.cli.model_access import check_access
from cosmos_batch.cli.options import generator_options, joined_numbers
from cosmos_batch.cli.output import output_options, output_target
from cosmos_batch.cli.process_pool import process_pool
from cosmos_batch.cli.robot_inputs import one_episode_options, with_episode
from cosmos_batch.cli.uploads import Uploads
from cosmos_batch.cli.worker_failures import print_worker_failures
from cosmos_batch.contract.config import Config
from cosmos_batch.contract.entries import REQUIRED, GeneratorEntry
from cosmos_batch.contract.request import Request
from cosmos_batch.planning.configuration import load_config
from cosmos_batch.planning.deployment import EnabledPipeline, enabled_pipelines
from cosmos_batch.planning.generation.request_file import read_request_file
from cosmos_batch.planning.generation.settling import choose_pipeline

SMALLEST = "cosmos3-nano"
PACKAGE = "cosmos_guardrail"  # NVIDIA's package, which Diffusers and vLLM-Omni import
ENGINE = "diffusers"  # used on this machine if config.json names none: it needs nothing beside this environment


class _GenerateCommand(CosmosCommand):
    """A command that reads `--condition-frames 0 2` as `--condition-frames 0,2`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, joined_numbers(args, "--condition-frames"))


@click.command(
    cls=_GenerateCommand,
    examples=[
        'cosmos-batch generate --prompt "A robot pours water." --no-guardrails',
        'cosmos-batch generate first.png --prompt "It starts to rain." --num-frames 93 --no-guardrails --output made/',
        'cosmos-batch generate clip.mp4 --prompt "The same, at night." --edge --blur --no-guardrails',
        "cosmos-batch generate pour.cosmos.json --submit",
        "cosmos-batch generate libero/ --episode 1 --camera observation.images.front --mode forward_dynamics"
        " --domain-name libero --action-chunk-size 8 --no-guardrails",
    ],
)
@click.argument("file", metavar="[FILE|s3://...]", type=click.Path(), required=False)
@generator_options
@one_episode_options
@option("--submit", "only_submit", is_flag=True, help="Start the job wherever this shell points, print its id and end.")
@option(
    "--model",
    metavar="ID|FOLDER",
    type=click.Path(),
    help="On this machine: Hugging Face id, or a checkpoint's folder.",
)
@option("--json", "as_json", is_flag=True, help="Print a JSON object: id, and what was made and saved; or id, input.")
@output_options(default=".")
def command(
    file: str | None,
    prompt: str | None,
    pipeline: str | None,
    only_submit: bool,
    model: str | None,
    output: str,
    force: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Make one thing on this machine, save its files and its document, and stop what was started.

    FILE is an image or a video to start from, a *.cosmos.json request, the document of what is to be made again, or a
    LeRobot data set with --episode. A local cloud that stands is used as it stands; with --model, the command starts
    one of its own.
    """
    if only_submit and model:
        raise WrongCall("--submit and --model do not go together.", "--submit uses the models that are deployed.")
    scratch = Path(click.get_current_context().with_resource(tempfile.TemporaryDirectory(prefix="cosmos-batch-")))
    file, prompt, options = with_episode(file, prompt, options, scratch)
    request = replace(read_generation_request(file, prompt, pipeline, options), scratch=scratch)
    if only_submit:
        deployment = deployments.find()
        submitted = submit(deployment, request)
        print(json.dumps({"id": submitted.job_id, "input": submitted.input}) if as_json else submitted.job_id)
        print_worker_failures(deployment, [submitted.pipeline])
        return 0
    target = output_target(output, force, "what was made, and its document")
    if model:
        changes: dict[str, Any] = {"model": configuration.checked_model(model)}
    else:
        request, changes = on_a_server(request)
    with (
        process_pool() as pool,
        local_deployment(
            pool, lambda: _accessible_config_file(request, changes), reuse=not changes, generates=True
        ) as local,
    ):
        print_result = print_result_line if as_json else print_or_save
        return print_result(local, make(local, request), target)


def on_a_server(request: GenerationRequest) -> tuple[GenerationRequest, dict[str, Any]]:
    """Return the request for the pipeline of a server that runs already and can make it, and the changes that set the
    pipeline to that server. A pipeline that was named stays. Raises WrongCall."""
    parameters = request.parameters
    name = request.pipeline or choose_pipeline(list(configuration.servers()), parameters.mode, request.medium)
    changes = {} if name is None else configuration.served(name, parameters.guardrails)
    return replace(request, pipeline=name), changes


def config_file(request: GenerationRequest, changes: dict[str, Any]) -> Path:
    """Return a configuration in which the request's generator is enabled, with these changes.

    Raises WrongCall, also where the request's guardrails are not installed on this machine.
    """
    config, name = load_config(configuration.CONFIG), _pipeline_here(request)
    enabled = [entry.pipeline.id for entry in enabled_pipelines(config)]
    entry = {} if name in enabled and not _is_auto(config, name) else entry_here(request)
    path = configuration.CONFIG
    _refuse_switching_off(request, config, name)
    if entry or changes:
        path = configuration.with_entry(_generator(name), {**entry, **changes})
    settled = configuration.enabled_pipeline(load_config(path), name)
    if request.request_file is None and settled.serving is not None:
        refuse_unsettled(request, name, settled.serving)
    _refuse_unguarded(request, settled)  # last: its remedy takes longest
    return path


def _pipeline_here(request: GenerationRequest) -> str:
    """Return the pipeline that makes it on this machine: the named one, or the smallest that is enabled, or Nano."""
    enabled = [entry.pipeline.id for entry in enabled_pipelines(load_config(configuration.CONFIG))]
    return request.pipeline or choose_pipeline(enabled, request.parameters.mode, request.medium) or SMALLEST


def _accessible_config_file(request: GenerationRequest, changes: dict[str, Any]) -> Path:
    """Return `config_file` for a cloud of this command's own, having checked that it has the files and the model."""
    refuse_objects_in_own_cloud(request)
    path = config_file(request, changes)
    check_access(path, configuration.enabled_pipeline(load_config(path), _pipeline_here(request)))
    return path


def _is_auto(config: Config, name: str) -> bool:
    """Return whether the configuration leaves the engine to us."""
    return config.app.pipelines.use_nvidia_cosmos3.models_omni.entry(_generator(name)).engine == "auto"


def entry_here(request: GenerationRequest) -> dict[str, Any]:
    """Return a generator's entry of config.json for this machine; without guardrails where the request has none."""
    return {
        "enabled": True,
        "engine": ENGINE,
        **({"guardrails": False} if request.parameters.guardrails is False else {}),
    }


def _refuse_switching_off(request: GenerationRequest, config: Config, name: str) -> None:
    """Raise WrongCall where the request switches off guardrails that config.json requires."""
    entry = config.app.pipelines.use_nvidia_cosmos3.models_omni.entry(_generator(name))
    if request.parameters.guardrails is False and isinstance(entry, GeneratorEntry) and entry.guardrails == REQUIRED:
        raise WrongCall(
            f"config.json requires guardrails of {name}.",
            "Leave --no-guardrails out. Whoever deploys the pipeline can set its `guardrails` in config.json to true, "
            "which lets requests switch them off.",
        )


def _refuse_unguarded(request: GenerationRequest, pipeline: EnabledPipeline) -> None:
    """Raise WrongCall where guardrails are on and not installed: a worker would refuse it after loading the model."""
    if request.parameters.guardrails is False or request.request_file is not None:
        return
    needs_package = pipeline.engine in GENERATOR_ABILITIES and COSMOS_GUARDRAIL[0] in pipeline.models
    if needs_package and find_spec(PACKAGE) is None:
        raise WrongCall(
            f"Guardrails are on, and this machine has none: {PACKAGE} is not installed.",
            f"Type --no-guardrails; or accept the licence of {COSMOS_GUARDRAIL[0]}, and install NVIDIA's package: "
            f"{sys.executable} -m pip install {PACKAGE}",
        )


def make(deployment: Deployment, request: GenerationRequest) -> JobResult:
    """Start the job and show its stages until it has ended."""
    submitted = submit(deployment, request)
    with progress.display() as display:
        snapshot = progress.follow(deployment, submitted.job_id, submitted.at, display)
    assert snapshot.execution is not None, "an execution that has ended exists"
    result = read_job_result(snapshot.execution, snapshot.row)
    return replace(result, uploaded=submitted.uploaded, job_id=submitted.job_id)


def submit(deployment: Deployment, request: GenerationRequest) -> Submitted:
    """Upload the files of this machine and start the job, having checked all that the planning Lambda would refuse.

    Raises WrongCall where no generator for it is deployed.
    """
    refuse_objects(deployment, request)
    pipeline = _chosen(deployment, request)
    refuse_unplannable(deployment, request, pipeline)
    uploads = Uploads(deployment)
    scratch, uploaded = request.scratch, dict[str, UploadedFile]()

    def upload(path: Path) -> str:
        uri = uploads.put(path)
        is_temporary = scratch is not None and path.is_relative_to(scratch)
        uploaded[uri] = UploadedFile(path, digest(path), is_temporary)
        return uri

    request = request.with_files(upload)
    output = None
    if request.input is None and request.request_file is None:
        output = uploads.new_folder()
    sent = Request(
        pipeline=pipeline,
        input=None if request.input is None else str(request.input),
        prompt=request.prompt,
        generation=request.parameters,
        request_file=request.request_file,
        origin=request.origin,
        output=output,
    )
    return replace(start(deployment, sent), uploaded=uploaded)


def _chosen(deployment: Deployment, request: GenerationRequest) -> str:
    """Return the id of the deployed generator that makes it. Raises WrongCall."""
    generators = [name for name in deployment.pipelines if is_generator(name)]
    name, mode = request.pipeline, request.parameters.mode
    if name is None and request.request_file is not None:
        file = read_request_file(read_document(deployment, request.request_file).encode())
        name, mode = file.pipeline, mode or file.parameters.mode
    chosen = choose_pipeline(generators, mode, request.medium) if name is None else name
    if chosen not in generators:
        raise WrongCall(
            f"No generator for it is deployed here{f': {name}' if name else ''}.",
            f"Deployed generators: {', '.join(generators) or 'none'}. Enable one in config.json, below "
            "useNvidiaCosmos3.modelsOmni, and deploy.",
        )
    return chosen


def _generator(name: str) -> Pipeline:
    pipeline = pipeline_named(name)
    if pipeline is None or pipeline.surface != "generator":
        raise WrongCall(f"There is no generator {name!r}.", "Name one of docs/generator.md, such as cosmos3-nano.")
    return pipeline
