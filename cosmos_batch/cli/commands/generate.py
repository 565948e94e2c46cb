"""`cosmos-batch generate`: something is made, on this machine or wherever the shell points."""

import argparse
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cosmos_batch.catalogue.generator_engines import COSMOS_GUARDRAIL, GENERATOR_ABILITIES
from cosmos_batch.catalogue.pipelines import Pipeline, pipeline_named
from cosmos_batch.cli import configuration, input_checks, progress
from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.cloud import default_home
from cosmos_batch.cli.commands.result import print_error
from cosmos_batch.cli.commands.submit import Submitted, start
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.generation_request import GenerationRequest, read_generation_request
from cosmos_batch.cli.job_result import JobResult, read_document, read_job_result, save_files
from cosmos_batch.cli.local_deployment import local_deployment
from cosmos_batch.cli.process_pool import process_pool
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
PACKAGE = "cosmos_guardrail"  # NVIDIA's, which Diffusers and vLLM-Omni load
ENGINE = "diffusers"  # of this machine, where config.json names none: it needs nothing beside this environment


def generate(arguments: argparse.Namespace) -> int:
    """Make one thing. A standing local cloud is used as it stands; where a model is named, the command has a cloud of
    its own."""
    making = read_generation_request(arguments)
    if arguments.submit:
        deployment = deployments.find()
        submitted = submit(deployment, making)
        print(submitted.job_id)
        print_worker_failures(deployment, [submitted.pipeline])
        return 0
    if arguments.model:
        changes: dict[str, Any] = {"model": configuration.checked_model(arguments.model)}
    else:
        making, changes = on_a_server(making)
    with (
        process_pool() as pool,
        local_deployment(pool, lambda: config_file(making, changes), reuse=not changes) as deployment,
    ):
        ended = make(deployment, making)
        if ended.error is not None:
            return print_error(ended.error)
        for path in save_files(deployment, ended, Path(arguments.output)):
            print(path)
    return 0


def on_a_server(making: GenerationRequest) -> tuple[GenerationRequest, dict[str, Any]]:
    """With the pipeline of a server that runs already, if one is named that makes it, and what sets it to that server;
    a pipeline that was asked for stays. Raises CliError."""
    parameters = making.parameters
    named = making.pipeline or choose_pipeline(list(configuration.servers()), parameters.mode, making.medium)
    changes = {} if named is None else configuration.served(named, parameters.guardrails)
    return replace(making, pipeline=named), changes


def config_file(making: GenerationRequest, changes: dict[str, Any]) -> Path:
    """The configuration, in which the generator that is wanted is enabled, and set as is said. Raises CliError, also
    where its guardrails are not on this machine."""
    config = load_config(configuration.CONFIG)
    enabled = [one.pipeline.id for one in enabled_pipelines(config)]
    named = making.pipeline or choose_pipeline(enabled, making.parameters.mode, making.medium) or SMALLEST
    entry = {} if named in enabled and not _is_auto(config, named) else entry_here(making)
    path = configuration.CONFIG
    _refuse_switching_off(making, config, named)
    if entry or changes:
        path = configuration.with_entry(_generator(named), {**entry, **changes}, default_home())
    _refuse_unguarded(making, configuration.enabled_pipeline(load_config(path), named))
    return path


def _is_auto(config: Config, name: str) -> bool:
    """Whether the engine is ours to choose."""
    return config.app.pipelines.use_nvidia_cosmos3.models_omni.entry(_generator(name)).engine == "auto"


def entry_here(making: GenerationRequest) -> dict[str, Any]:
    """Of a generator on this machine. Guardrails that nobody asks for are not loaded."""
    return {
        "enabled": True,
        "engine": ENGINE,
        **({"guardrails": False} if making.parameters.guardrails is False else {}),
    }


def _refuse_switching_off(making: GenerationRequest, config: Config, name: str) -> None:
    """Raise CliError where this would start the pipeline without the guardrails that config.json requires."""
    entry = config.app.pipelines.use_nvidia_cosmos3.models_omni.entry(_generator(name))
    if making.parameters.guardrails is False and isinstance(entry, GeneratorEntry) and entry.guardrails == REQUIRED:
        raise CliError(
            f"config.json requires guardrails of {name}.",
            "Leave --no-guardrails out, or set its `guardrails` to true, which lets requests switch them off.",
        )


def _refuse_unguarded(making: GenerationRequest, pipeline: EnabledPipeline) -> None:
    """A worker would refuse it too, with the model loaded."""
    if making.parameters.guardrails is False or making.request_file is not None:
        return
    of_package = pipeline.engine in GENERATOR_ABILITIES and COSMOS_GUARDRAIL[0] in pipeline.models
    if of_package and find_spec(PACKAGE) is None:
        raise CliError(
            f"Guardrails are on, and this machine has none: {PACKAGE} is not installed.",
            f"Say --no-guardrails; or accept the licence of {COSMOS_GUARDRAIL[0]}, and install NVIDIA's package: "
            f"{sys.executable} -m pip install {PACKAGE}",
        )


def make(deployment: Deployment, making: GenerationRequest) -> JobResult:
    """Submit, and show what happens until it has ended."""
    submitted = submit(deployment, making)
    with progress.display() as display:
        sight = progress.follow(deployment, submitted.job_id, submitted.at, display)
    assert sight.execution is not None, "an execution that has ended exists"
    return replace(read_job_result(sight.execution, sight.row), uploaded=submitted.uploaded)


def submit(deployment: Deployment, making: GenerationRequest) -> Submitted:
    """Upload the files of this machine and start the state machine. Raises CliError where no generator is deployed."""
    pipeline = _chosen(deployment, making)
    uploads = Uploads(deployment)
    uploaded: dict[str, dict[str, str]] = {}

    def upload(path: Path) -> str:
        uri = uploads.put(path)
        uploaded[uri] = {"path": str(path.resolve()), "sha256": input_checks.digest(path)}
        return uri

    making = making.with_files(upload)
    output = None
    if making.input is None and making.request_file is None:
        output = uploads.new_folder()
    request = Request(
        pipeline=pipeline,
        input=None if making.input is None else str(making.input),
        prompt=making.prompt,
        generation=making.parameters,
        request_file=making.request_file,
        origin=making.origin,
        output=output,
    )
    return replace(start(deployment, request), uploaded=uploaded)


def _chosen(deployment: Deployment, making: GenerationRequest) -> str:
    generators = [one for one in deployment.pipelines if _is_generator(one)]
    named, mode = making.pipeline, making.parameters.mode
    if named is None and making.request_file is not None:
        said = read_request_file(read_document(deployment, making.request_file).encode())
        named, mode = said.pipeline, mode or said.parameters.mode
    found = choose_pipeline(generators, mode, making.medium) if named is None else named
    if found not in generators:
        raise CliError(
            f"No generator for it is deployed here{f': {named}' if named else ''}.",
            f"Deployed generators: {', '.join(generators) or 'none'}. Enable one in config.json, below "
            "useNvidiaCosmos3.modelsOmni, and deploy.",
        )
    return found


def _is_generator(name: str) -> bool:
    pipeline = pipeline_named(name)
    return pipeline is not None and pipeline.surface == "generator"


def _generator(name: str) -> Pipeline:
    pipeline = pipeline_named(name)
    if pipeline is None or pipeline.surface != "generator":
        raise CliError(f"There is no generator {name!r}.", "Name one of docs/generator.md, such as cosmos3-nano.")
    return pipeline
