"""Check that a model is on this machine or can be downloaded, before anything is started for it."""

import threading
from collections.abc import Iterable
from pathlib import Path

from cosmos_batch.cli import configuration
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError, explain
from cosmos_batch.cli.local_cloud import default_home
from cosmos_batch.cli.messages import inform
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.model_name import ModelName
from cosmos_batch.demo import DEMO_REASON
from cosmos_batch.planning.configuration import load_config
from cosmos_batch.planning.deployment import EnabledPipeline
from cosmos_batch.store.copies import Copies

HUB_SECONDS = 8.0
DEMO_MODEL = "cosmos-batch/demo-reason"
STAND_IN = (
    f"{DEMO_MODEL} answers: a small model that knows clips and images of one to three simple shapes, and says so of "
    "other files."
)


def is_here(model: str) -> bool:
    """Return whether a model is a folder, or lies in the model store of the local cloud."""
    if model.startswith("/"):
        return True
    stores = (default_home() / "efs").glob("*/models")
    return any(Copies(store, model).newest() for store in stores)


def accessible_config(pipelines: Iterable[EnabledPipeline]) -> Path:
    """Return config.json, or a copy of it with the demo's small model for each reasoner whose model is not available.

    Says for each pipeline why its model is not available. A generator stays as it is: no model stands in for one.
    """
    missing = [pipeline for pipeline in pipelines if not _is_available(pipeline)]
    reasoners = [pipeline for pipeline in missing if pipeline.pipeline.surface == "reasoner"]
    return stand_in(*reasoners) if reasoners else configuration.CONFIG


def _is_available(pipeline: EnabledPipeline) -> bool:
    """Return whether a model is on this machine or can be downloaded. If it cannot be, print why."""
    try:
        check_access(configuration.CONFIG, pipeline)
    except (CliError, Failure) as error:
        inform(str(explain(error)))
        return False
    return True


def stand_in(*reasoners: EnabledPipeline) -> Path:
    """Return a configuration with the demo's small model in place of each reasoner's, and print that it answers."""
    for reasoner in reasoners:
        inform(
            f"{reasoner.model} is not on this machine, so {STAND_IN}\n"
            f"NVIDIA's model answers about any file: cosmos-batch run FILE --model {reasoner.model}"
        )
    return configuration.with_entries((reasoner.pipeline, {"model": str(DEMO_REASON)}) for reasoner in reasoners)


def inform_of_stand_ins(deployment: Deployment, pipelines: Iterable[str]) -> None:
    """Print which of these deployed pipelines are answered by the small demo model instead of NVIDIA's."""
    for name in pipelines:
        if is_stand_in(deployment, name):
            inform(f"{name} here: {STAND_IN}")


def is_stand_in(deployment: Deployment, pipeline: str) -> bool:
    """Return whether the demo's small model answers for a deployed pipeline."""
    deployed = deployment.deployed_pipeline(pipeline)
    return deployed is not None and is_demo_model(deployed.queue.identity.model)


def is_demo_model(model: str) -> bool:
    """Return whether a deployed model is the demo's small one."""
    return model.endswith(f"/{DEMO_MODEL}")


def check_access(config_file: Path, pipeline: EnabledPipeline) -> None:
    """Raise Failure or CliError within ten seconds where a pipeline's model is not available. A person is waiting.

    A worker would find out as well, and be started again and again until the job's deadline.
    """
    if pipeline.endpoint is not None or is_here(pipeline.model):
        return
    token = load_config(config_file).cosmos.hugging_face_token.get_secret_value() or None
    failures: list[Failure] = []

    def resolve() -> None:
        from cosmos_batch.store.huggingface import Hub

        name = ModelName.parse(pipeline.model)
        try:
            Hub(name.model, token).check_access(name.revision)
        except Failure as failure:
            failures.append(failure)

    # The library's own limit counts for each attempt to connect. A daemon thread does not keep the process alive.
    thread = threading.Thread(target=resolve, daemon=True)
    thread.start()
    thread.join(HUB_SECONDS)
    if thread.is_alive():
        raise CliError(
            f"Hugging Face does not answer within {HUB_SECONDS:.0f} s, and {pipeline.model} is not on this machine.",
            "Check the connection to the internet (proxy, HF_ENDPOINT); or name a checkpoint's folder: --model FOLDER, "
            "or `model` in config.json. `cosmos-batch demo` needs neither.",
        )
    if failures:
        raise failures[0]


def check_server(url: str) -> None:
    """Raise CliError within ten seconds where no server answers at the address of an endpoint. A person is waiting.

    A worker would ask it again until the job's deadline. An error of HTTP is an answer too: the worker tells it.
    """
    import httpx2

    try:
        httpx2.get(f"{url}/models", timeout=HUB_SECONDS)
    except httpx2.TransportError as error:
        raise CliError(f"No server answers at {url}: {error}.", "Start it, or correct --endpoint.") from error
