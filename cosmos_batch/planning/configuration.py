"""Read `config.json` and check that what it describes can be deployed.

The schema in `contract/config.py` checks each field by itself. This module checks the fields against each other and
against the catalogue, for example whether a model fits the GPUs of the instance types that are listed for it.
"""

from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from cosmos_batch.catalogue.distillation import fixed_steps_of
from cosmos_batch.catalogue.engines import ENGINES, GENERATOR_ABILITIES, names_for
from cosmos_batch.catalogue.generation import REASONERS_IN_FP8, STEP_CACHES, input_extensions
from cosmos_batch.catalogue.hardware import FP8_CAPABILITY, GPUS, INSTANCE_TYPES, dotted
from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.config import Config
from cosmos_batch.contract.entries import (
    MAX_COMPUTE_ENVIRONMENTS,
    REQUIRED,
    GeneratorEntry,
    PipelineEntry,
    ReasonerEntry,
    parse_extensions,
)
from cosmos_batch.contract.error import explain, field_names
from cosmos_batch.planning.deployment import (
    EnabledPipeline,
    choose_instance_types,
    enabled_pipelines,
    engine_name,
    most_instance_types,
    parallel_plans,
    planned_pipeline,
    served_model,
    serving_engine,
)
from cosmos_batch.planning.generation.abilities import distilled_obstacle
from cosmos_batch.planning.generation.parallelism import refuse_lossy_deployment
from cosmos_batch.planning.instance_types import types_for, why_not, why_not_together, worker_resources


class ConfigError(Exception):
    """The configuration is wrong. The message has one line for each problem: the field, its value, what is allowed."""


def load_config(path: Path) -> Config:
    """Read and check a configuration file. Raises ConfigError."""
    try:
        return parse_config(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse_config(text: str) -> Config:
    """Read and check the JSON text of a configuration. Raises ConfigError."""
    try:
        config = Config.model_validate_json(text)
    except ValidationError as error:
        raise ConfigError(explain(error, field_names(Config))) from error
    if problems := list(_entry_problems(config)) or list(_deployment_problems(config)):
        raise ConfigError("\n".join(problems))
    return config


def _entry_problems(config: Config) -> Iterator[str]:
    """Return the problems of single pipelines. Those that are not enabled are checked too, but need no plan of GPUs."""
    omni = config.app.pipelines.use_nvidia_cosmos3
    blocks = {
        "app.pipelines.useNvidiaCosmos.modelsReason": config.cosmos.models_reason,
        "app.pipelines.useNvidiaCosmos3.modelsOmni": omni.models_omni,
    }
    for path, entries in blocks.items():
        for pipeline in entries.pipelines():
            try:
                check_entry(entries.entry(pipeline), pipeline)
            except ValueError as error:
                yield f"{path}.{error}"


def check_entry(entry: ReasonerEntry | GeneratorEntry, pipeline: Pipeline) -> None:
    """Raise ValueError if a worker of the pipeline cannot run as configured. The message begins with the field."""
    if isinstance(entry, ReasonerEntry):
        _refuse_lossy_reasoner(entry, pipeline)
    else:
        _check_generator(entry, pipeline)
        if entry.enabled:
            pipeline = planned_pipeline(entry, pipeline)
    _check_instance_types(entry, pipeline)


def _check_instance_types(entry: PipelineEntry, pipeline: Pipeline) -> None:
    key = pipeline.config_key
    for field in ("instance_types", "fallback_instance_types"):
        for name in getattr(entry, field) or []:
            if reason := why_not(pipeline, name):
                alias = type(entry).model_fields[field].alias
                raise ValueError(f"{key}.{alias}: {reason}; allowed: {', '.join(types_for(pipeline))}")
    types = choose_instance_types(entry, pipeline).names
    if len(types) > most_instance_types(entry):
        spot = ", of which Spot takes one" if entry.use_spot else ""
        raise ValueError(
            f"{key}.fallbackInstanceTypes: {', '.join(types)} are {len(types)} types together; "
            f"a Batch job queue holds {MAX_COMPUTE_ENVIRONMENTS} compute environments{spot}"
        )
    if reason := why_not_together(pipeline, types):
        raise ValueError(f"{key}.instanceTypes: {', '.join(types)}: {reason}")
    vcpus = worker_resources(pipeline, types).vcpus
    if entry.max_vcpus < vcpus:
        raise ValueError(f"{key}.maxVCpus: {entry.max_vcpus} holds no worker; allowed: {vcpus} or more")


def _refuse_lossy_reasoner(entry: ReasonerEntry, pipeline: Pipeline) -> None:
    """Raise ValueError for a lossy mode that the engine lacks, and for FP8 on GPUs that do not compute in it.

    'auto' has no such mode: it becomes Transformers where there is no GPU.
    """
    key = f"{pipeline.config_key}.lossy"
    for mode in entry.lossy:
        able = [engine.name for engine in ENGINES.values() if mode in engine.lossy]
        if entry.engine not in able:
            use = f"use engine {' or '.join(able)}, or leave {mode} out" if able else f"leave {mode} out"
            raise ValueError(f"{key}: {entry.engine} has no {mode}; {use}")
    in_fp8 = [mode for mode in entry.lossy if mode in REASONERS_IN_FP8]
    if not in_fp8:
        return
    for name in choose_instance_types(entry, pipeline).names:
        gpu = INSTANCE_TYPES[name].gpu
        if (capability := GPUS[gpu].compute_capability) < FP8_CAPABILITY:
            raise ValueError(
                f"{key}: {' and '.join(in_fp8)} needs a GPU of compute capability {dotted(FP8_CAPABILITY)} or later, "
                f"and {name} has {gpu} ({dotted(capability)}); set instanceTypes without it"
            )


def _check_generator(entry: GeneratorEntry, pipeline: Pipeline) -> None:
    key = pipeline.config_key
    if entry.enabled:
        _refuse_distilled_models(entry, pipeline)
    if (
        entry.enabled
        and entry.guardrails
        and entry.engine in GENERATOR_ABILITIES
        and not GENERATOR_ABILITIES[entry.engine].guardrails
    ):
        raise ValueError(
            f"{key}.guardrails: {entry.engine} has no guardrails; set them to false, or take another engine"
        )
    if entry.endpoint is not None and "guardrails" not in entry.model_fields_set:
        raise ValueError(
            f"{key}.guardrails: is missing; a server does not report whether it was started with guardrails, so set "
            "this to true or false"
        )
    if entry.endpoint is not None and entry.guardrails == REQUIRED:
        raise ValueError(
            f"{key}.guardrails: 'required' is impossible with an endpoint, because a server does not report whether it "
            "checked; use an engine that runs in a worker, or set true or false"
        )
    accepted = input_extensions(pipeline.modes)
    if refused := set(parse_extensions(entry.auto_trigger_on_file_extensions_upload)) - set(accepted):
        raise ValueError(
            f"{key}.autoTriggerOnFileExtensionsUpload: {pipeline.id} takes no {min(refused)} files; "
            f"allowed: {', '.join(accepted) or 'nothing, for it starts from text'}"
        )
    if entry.enabled:
        refuse_lossy_deployment(entry.lossy, pipeline, engine_name(entry, pipeline), parallel_plans(entry, pipeline))


def _refuse_distilled_models(entry: GeneratorEntry, pipeline: Pipeline) -> None:
    """Raise ValueError for a distilled model that the engine cannot run, or not in one of its lossy modes."""
    field = "endpoint.model" if entry.endpoint else "model"
    model = served_model(entry, pipeline)
    if obstacle := distilled_obstacle(model, serving_engine(entry, pipeline)):
        raise ValueError(f"{pipeline.config_key}.{field}: {model} {obstacle.reason}; {obstacle.remedy}")
    if fixed_steps_of(model) and (caches := [mode for mode in entry.lossy if mode in STEP_CACHES]):
        raise ValueError(
            f"{pipeline.config_key}.lossy: {' and '.join(caches)} skips steps, and {model} has only "
            f"{fixed_steps_of(model)}, of which none can be spared; leave it out"
        )


def _deployment_problems(config: Config) -> Iterator[str]:
    """Return the problems of all enabled pipelines together, and of pipelines with the rest of the configuration."""
    enabled = enabled_pipelines(config)
    for pipeline in enabled:
        yield from _warm_instance_problems(pipeline)
        yield from _engine_problems(config, pipeline)
        yield from _secret_problems(config, pipeline)
    yield from _total_problems(config, enabled)


def _warm_instance_problems(enabled: EnabledPipeline) -> Iterator[str]:
    preferred = enabled.instance_types[0]
    vcpus = enabled.warm_instances * INSTANCE_TYPES[preferred].vcpus
    if vcpus > enabled.max_vcpus:
        yield (
            f"app.pipelines.useNvidiaCosmos.warmInstanceCount: {enabled.warm_instances} x {preferred} are {vcpus} "
            f"vCPUs, {enabled.pipeline.config_key}.maxVCpus is {enabled.max_vcpus}"
        )


def _engine_problems(config: Config, enabled: EnabledPipeline) -> Iterator[str]:
    key = enabled.pipeline.config_key
    is_cosmos3 = enabled.pipeline.is_cosmos3
    engine = ENGINES.get(enabled.engine)
    if engine is not None and engine.cosmos3_only and not is_cosmos3:
        others = [repr(name) for name in names_for("reasoner") if not ENGINES[name].cosmos3_only]
        yield f"{key}.engine: {engine.title} runs models of Cosmos 3 alone; use {' or '.join(others)}"
    if config.own.images.cuda == "cu128" and is_cosmos3 and enabled.engine in ("auto", "vllm"):
        yield (
            "app.cosmosBatch.images.cuda: 'cu128' brings a vLLM that does not know Cosmos 3; take 'cu130', or set "
            f"{key}.engine to 'transformers'"
        )


def _secret_problems(config: Config, enabled: EnabledPipeline) -> Iterator[str]:
    if config.own.network.reaches_secrets:
        return
    endpoints = {f"{enabled.pipeline.config_key}.endpoint": enabled.endpoint, "promptUpsampling": enabled.upsampler}
    for key, endpoint in endpoints.items():
        if endpoint is not None and endpoint.api_key_secret_arn:
            yield (
                f"{key}.apiKeySecretArn: with network.mode 'vpcOnly' no worker reaches Secrets Manager; take another "
                "mode, or a VPC of yours with an endpoint for it"
            )


def _total_problems(config: Config, enabled: list[EnabledPipeline]) -> Iterator[str]:
    total = config.own.scaling.max_total_vcpus
    if total is None or not enabled:
        return
    needed = max(
        *(pipeline.resources.vcpus * max(1, pipeline.warm_workers) for pipeline in enabled),
        sum(pipeline.resources.vcpus * pipeline.warm_workers for pipeline in enabled),
    )
    if total < needed:
        yield (
            f"app.cosmosBatch.scaling.maxTotalVCpus: is {total}, and the largest worker, or all warm ones, have "
            f"{needed} vCPUs"
        )
