"""`cosmos-batch demo`: it runs wherever the project does, with a clip and a small model of its own."""

import argparse
import os
import tempfile
import time
from multiprocessing.pool import AsyncResult
from pathlib import Path

from cosmos_batch.cli import configuration, input_checks
from cosmos_batch.cli.cloud import default_home
from cosmos_batch.cli.commands.result import print_outcome
from cosmos_batch.cli.commands.run import ask, save
from cosmos_batch.cli.local_deployment import local_deployment
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.process_pool import process_pool
from cosmos_batch.cli.reasoner_request import ReasonerRequest
from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.demo import DEMO_REASON
from cosmos_batch.planning.configuration import load_config
from cosmos_batch.store.copies import Copies


def demo(_arguments: argparse.Namespace) -> int:
    """Answer FILE with the question PROMPT, both from the environment; without them, a clip and a question of ours."""
    began = time.monotonic()
    named, prompt = os.environ.get("FILE"), input_checks.checked_prompt(os.environ.get("PROMPT"))
    folder = default_home() / "demo"
    path = input_checks.checked_input(named) if named else folder / "shapes.mp4"
    made: list[AsyncResult[Path]] = []
    with process_pool() as pool:
        if not named:
            made.append(pool.apply_async(_render_clip, (path,)))
        with local_deployment(pool, _config_file) as deployment:
            for one in made:
                one.get()
            inform(f"Asking about {path.name}: {prompt}")
            ended = ask(deployment, path, ReasonerRequest(prompt), None)
            status = print_outcome(deployment, ended)
            if ended.document_uri:
                copy = default_home() / "results" / Path(parse_uri(ended.document_uri).key).name
                save(deployment, ended.document_uri, copy)
                inform(f"The document lies at {ended.document_uri} in the local cloud; a copy that stays: {copy}")
    inform(f"Done in {time.monotonic() - began:.1f} s")
    return status


def _config_file() -> Path:
    """The configuration with the model that is on this machine; where there is none, with the demo's own."""
    smallest = configuration.enabled_pipeline(load_config(configuration.CONFIG), None)
    if is_here(smallest.model):
        return configuration.CONFIG
    inform(
        f"{smallest.model} is not on this machine, so cosmos-batch/demo-reason answers: a small model that knows clips "
        f"of a few moving shapes and nothing else.\nNVIDIA's answers about everything: cosmos-batch run FILE --model "
        f"{smallest.model}"
    )
    return configuration.with_entry(smallest.pipeline, {"model": str(DEMO_REASON)}, default_home())


def is_here(model: str) -> bool:
    """Whether a model is a folder, or lies in the model store of the local cloud."""
    if model.startswith("/"):
        return True
    stores = (default_home() / "efs").glob("*/models")
    return any(Copies(store, model).newest() for store in stores)


def _render_clip(path: Path) -> Path:
    """Write the sample clip; interrupted, nothing stands in its place."""
    from cosmos_batch.demo.media import sample_clip

    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        return sample_clip(Path(scratch) / path.name).rename(path)
