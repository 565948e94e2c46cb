"""Check that a model is on this machine or can be downloaded, before anything is started for it."""

import threading
from pathlib import Path

from cosmos_batch.cli import configuration
from cosmos_batch.cli.cloud import default_home
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.messages import inform
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.model_name import ModelName
from cosmos_batch.demo import DEMO_REASON
from cosmos_batch.planning.configuration import load_config
from cosmos_batch.planning.deployment import EnabledPipeline
from cosmos_batch.store.copies import Copies

HUB_SECONDS = 8.0


def is_here(model: str) -> bool:
    """Return whether a model is a folder, or lies in the model store of the local cloud."""
    if model.startswith("/"):
        return True
    stores = (default_home() / "efs").glob("*/models")
    return any(Copies(store, model).newest() for store in stores)


def stand_in(pipeline: EnabledPipeline) -> Path:
    """Return a configuration with the demo's small model in place of a reasoner's, and print that it answers."""
    inform(
        f"{pipeline.model} is not on this machine, so cosmos-batch/demo-reason answers: a small model that knows clips "
        "and images of one to three simple shapes, and says so of other files.\nNVIDIA's model answers about any "
        f"file: cosmos-batch run FILE --model {pipeline.model}"
    )
    return configuration.with_entry(pipeline.pipeline, {"model": str(DEMO_REASON)})


def check_access(config_file: Path, pipeline: EnabledPipeline) -> None:
    """Raise Failure or CliError within ten seconds where a pipeline's model cannot be had. A person is waiting.

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
            "Check the way to the internet (proxy, HF_ENDPOINT); or name a checkpoint's folder: --model FOLDER. "
            "`cosmos-batch demo` needs neither.",
        )
    if failures:
        raise failures[0]
