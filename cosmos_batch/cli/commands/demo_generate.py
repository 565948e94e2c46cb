"""`cosmos-batch demo-generate`: make a video from a prompt with the whole system, by random weights if need be."""

import json
import os
import time
from multiprocessing.pool import AsyncResult, Pool
from pathlib import Path

import click

from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.cli import configuration
from cosmos_batch.cli.command_line import CosmosCommand
from cosmos_batch.cli.commands.generate import config_file, entry_here, make
from cosmos_batch.cli.generation_request import GenerationRequest, read_input
from cosmos_batch.cli.job_result import JobResult, print_error, save_files
from cosmos_batch.cli.local_cloud import default_home
from cosmos_batch.cli.local_deployment import local_deployment
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.model_access import is_here
from cosmos_batch.cli.output import OutputTarget
from cosmos_batch.cli.process_pool import process_pool
from cosmos_batch.cli.viewing_hint import inform_how_to_view
from cosmos_batch.contract.generation.document import GeneratorDocument
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.planning.configuration import load_config
from cosmos_batch.planning.deployment import enabled_pipelines
from cosmos_batch.planning.generation.prompts import prompt_text

NANO = "cosmos3-nano"
PROMPT = "A robot arm carries a red cube from the left to the right of a table."
# One second of video, with all files that can be made beside it: a CPU makes that soon. NVIDIA's own negative prompt,
# which is 10,000 tokens to the tiny tokenizer, would take most of the time.
PARAMETERS = GenerationParameters(
    resolution="256p",
    num_frames=25,
    steps=8,
    negative_prompt="",
    sound=True,
    guardrails=False,
    contact_sheet=True,
)


@click.command(
    cls=CosmosCommand,
    examples=["cosmos-batch demo-generate", 'PROMPT="A robot pours water." cosmos-batch demo-generate'],
)
def command() -> int:
    """Make one video through everything on this machine, and print where its files lie.

    PROMPT, and FILE to start from, come from the environment.
    """
    began = time.monotonic()
    prompt = prompt_text("prompt", (os.environ.get("PROMPT") or "").strip() or PROMPT)
    request = GenerationRequest(prompt, read_input(os.environ.get("FILE") or None), PARAMETERS, pipeline=NANO)
    models: list[AsyncResult[Path]] = []
    with (
        process_pool() as pool,
        local_deployment(pool, lambda: _config_file(request, pool, models), generates=True) as deployment,
    ):
        for model in models:
            model.get()
        inform(f"Making a video: {prompt}\nThe guardrails are OFF: neither prompt nor output is checked.")
        result = make(deployment, request)
        if result.error is not None:
            return print_error(result.error)
        target = OutputTarget(default_home() / "results", is_folder=True, force=True)
        paths = save_files(deployment, result, target)
        _show(result, paths)
        inform_how_to_view(paths[-1])
    inform(f"Done in {time.monotonic() - began:.1f} s")
    return 0


def _config_file(request: GenerationRequest, pool: Pool, models: list["AsyncResult[Path]"]) -> Path:
    """Return the configuration with the model that is on this machine.

    Where none is, one with random weights is begun in the pool, added to `models`, and configured.
    """
    pipeline, folder = pipeline_named(NANO), default_home() / "demo"
    assert pipeline is not None
    enabled = {entry.pipeline.id: entry for entry in enabled_pipelines(load_config(configuration.CONFIG))}
    if NANO in enabled and is_here(enabled[NANO].model):
        return config_file(request, {})
    from cosmos_batch.demo.generator import GENERATOR_NAME, build_random_generator

    inform(
        f"{pipeline.model} is not on this machine: a tiny model with RANDOM weights takes its place, so the video is "
        f"noise.\nNVIDIA's: cosmos-batch generate --model {pipeline.model} --prompt TEXT"
    )
    models.append(pool.apply_async(build_random_generator, (folder,)))
    return configuration.with_entry(pipeline, {**entry_here(request), "model": str(folder / GENERATOR_NAME)})


def _show(result: JobResult, paths: list[Path]) -> None:
    """Print the path of each saved file with its role, and the document's notes."""
    document = GeneratorDocument.model_validate(json.loads(paths[-1].read_text(encoding="utf-8")))
    roles = [*(file.role for file in document.files), "document"]
    for role, path in zip(roles, paths, strict=True):
        print(f"{role:13} {path}")
    for note in document.notes:
        inform(f"Note: {note}")
    inform(f"In the local cloud: {result.document_uri} and beside it. {document.attribution}.")
