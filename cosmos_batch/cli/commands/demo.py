"""`cosmos-batch demo`: send one clip through the whole system, with a clip and a small model of the project's own."""

import os
import tempfile
import time
from multiprocessing.pool import AsyncResult
from pathlib import Path

import click

from cosmos_batch.catalogue.formats import medium_of
from cosmos_batch.cli import configuration
from cosmos_batch.cli.answer_picture import draw_answer
from cosmos_batch.cli.command_line import CosmosCommand
from cosmos_batch.cli.commands.run import answer
from cosmos_batch.cli.input_checks import checked_path, checked_prompt
from cosmos_batch.cli.job_result import print_or_save, save_files
from cosmos_batch.cli.local_cloud import default_home
from cosmos_batch.cli.local_deployment import local_deployment
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.model_access import is_here, stand_in
from cosmos_batch.cli.output import OutputTarget
from cosmos_batch.cli.process_pool import process_pool
from cosmos_batch.cli.reasoner_request import ReasonerRequest
from cosmos_batch.cli.viewing_hint import inform_how_to_view
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.tasks import TASKS
from cosmos_batch.planning.configuration import load_config

GREEDY = Parameters(temperature=0, presence_penalty=0)
"""The likeliest answer, the same at each run, with no penalty on words that were there before."""


@click.command(
    cls=CosmosCommand,
    examples=["cosmos-batch demo", 'FILE=clip.mp4 PROMPT="Is anybody in danger?" cosmos-batch demo'],
)
def command() -> int:
    """Send one clip through everything on this machine, and print its analysis.

    FILE and PROMPT come from the environment. Without them, a sample clip is captioned, and its events and shapes are
    drawn on a contact sheet.
    """
    began = time.monotonic()
    name, question = os.environ.get("FILE"), (os.environ.get("PROMPT") or "").strip() or None
    path = checked_path(name) if name else default_home() / "demo" / "shapes.mp4"
    prompt = checked_prompt(question or TASKS["caption"].question(None, medium_of(path.name)))
    clips: list[AsyncResult[Path]] = []
    with process_pool() as pool:
        if not name:
            clips.append(pool.apply_async(_render_clip, (path,)))
        with local_deployment(pool, _config_file) as deployment:
            for clip in clips:
                clip.get()
            inform(f"Asking about {path.name}, with greedy decoding (temperature 0): {prompt}")
            result = answer(deployment, path, ReasonerRequest(prompt, parameters=GREEDY), None)
            status = print_or_save(deployment, result, None)
            if result.document_uri:
                target = OutputTarget(default_home() / "results", is_folder=True, force=True)
                [copy] = save_files(deployment, result, target)
                inform(f"The document lies at {result.document_uri} in the local cloud; a copy that stays: {copy}")
                draw_answer(deployment, path, copy, ask_more=not (name or question))
                inform_how_to_view(copy, path)
    inform(f"Done in {time.monotonic() - began:.1f} s")
    return status


def _config_file() -> Path:
    """Return the configuration as it is where its smallest model is on this machine, else one with the demo's model."""
    smallest = configuration.enabled_pipeline(load_config(configuration.CONFIG), None)
    return configuration.CONFIG if is_here(smallest.model) else stand_in(smallest)


def _render_clip(path: Path) -> Path:
    """Write the sample clip under another name and rename it, so that an interrupted one leaves nothing behind."""
    from cosmos_batch.demo.media import sample_clip

    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        return sample_clip(Path(scratch) / path.name).rename(path)
