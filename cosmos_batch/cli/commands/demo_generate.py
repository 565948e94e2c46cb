"""`cosmos-batch demo-generate`: a video from a prompt, wherever the project runs; where no model is, it brings one."""

import argparse
import json
import os
import time
from multiprocessing.pool import AsyncResult, Pool
from pathlib import Path

from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.cli import configuration
from cosmos_batch.cli.cloud import default_home
from cosmos_batch.cli.commands.demo import is_here
from cosmos_batch.cli.commands.generate import config_file, entry_here, make
from cosmos_batch.cli.commands.result import print_error
from cosmos_batch.cli.generation_request import GenerationRequest, read_input
from cosmos_batch.cli.job_result import JobResult, save_files
from cosmos_batch.cli.local_deployment import local_deployment
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.process_pool import process_pool
from cosmos_batch.contract.generation.document import GeneratorDocument
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.demo.generator import GENERATOR_NAME, build_random_generator
from cosmos_batch.planning.configuration import load_config
from cosmos_batch.planning.deployment import enabled_pipelines
from cosmos_batch.planning.generation.prompts import prompt_text

NANO = "cosmos3-nano"
PROMPT = "A robot arm carries a red cube from the left to the right of a table."
# One second, which a CPU makes soon, with all that can be made beside it. NVIDIA's own negative prompt, of
# 10,000 tokens to the tiny tokenizer, would take most of that time.
PARAMETERS = GenerationParameters(
    resolution="256p",
    num_frames=25,
    steps=8,
    negative_prompt="",
    sound=True,
    guardrails=False,
    contact_sheet=True,
)


def demo_generate(_arguments: argparse.Namespace) -> int:
    """Make a video of PROMPT, and from FILE if there is one, both from the environment."""
    began = time.monotonic()
    said = (os.environ.get("PROMPT") or "").strip()
    prompt = prompt_text("prompt", said or PROMPT)
    making = GenerationRequest(prompt, read_input(os.environ.get("FILE") or None), PARAMETERS, pipeline=NANO)
    made: list[AsyncResult[Path]] = []
    with process_pool() as pool, local_deployment(pool, lambda: _config_file(making, pool, made)) as deployment:
        for one in made:
            one.get()
        inform(f"GenerationRequest a video: {prompt}\nThe guardrails are OFF: neither prompt nor output is checked.")
        ended = make(deployment, making)
        if ended.error is not None:
            return print_error(ended.error)
        _show(ended, save_files(deployment, ended, default_home() / "results"))
    inform(f"Done in {time.monotonic() - began:.1f} s")
    return 0


def _config_file(making: GenerationRequest, pool: Pool, made: list["AsyncResult[Path]"]) -> Path:
    """The configuration with the model that is there; where none is, with random weights, whose making begins."""
    pipeline, folder = pipeline_named(NANO), default_home() / "demo"
    assert pipeline is not None
    enabled = {one.pipeline.id: one for one in enabled_pipelines(load_config(configuration.CONFIG))}
    if NANO in enabled and is_here(enabled[NANO].model):
        return config_file(making, {})
    inform(
        f"{pipeline.model} is not on this machine: a tiny model with RANDOM weights takes its place, so the video is "
        f"noise.\nThe real one: cosmos-batch generate --model {pipeline.model} --prompt TEXT"
    )
    made.append(pool.apply_async(build_random_generator, (folder,)))
    entry = {**entry_here(making), "model": str(folder / GENERATOR_NAME)}
    return configuration.with_entry(pipeline, entry, default_home())


def _show(ended: JobResult, paths: list[Path]) -> None:
    """Where each file lies, in the local cloud and in a copy that stays, and what the document says of it."""
    document = GeneratorDocument.model_validate(json.loads(paths[-1].read_text(encoding="utf-8")))
    roles = [*(one.role for one in document.files), "document"]
    for role, path in zip(roles, paths, strict=True):
        print(f"{role:13} {path}")
    for note in document.notes:
        inform(f"Note: {note}")
    inform(f"In the local cloud: {ended.document_uri} and beside it. {document.attribution}.")
