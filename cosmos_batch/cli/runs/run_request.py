"""Read and check the options of `runs plan` and `runs start`."""

import hashlib
import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import WrongCall, file_problem
from cosmos_batch.cli.input_checks import checked_prompt, chosen_pipeline
from cosmos_batch.cli.options import flag
from cosmos_batch.cli.prompt_files import read_description, read_question
from cosmos_batch.cli.reasoner_request import read_reasoner_request
from cosmos_batch.contract.error import explain
from cosmos_batch.contract.generation.parameters import SEED_LIMIT
from cosmos_batch.contract.parameters import read_parameters
from cosmos_batch.contract.runs import ORIGIN_LIMIT, RunRequest
from cosmos_batch.contract.s3 import S3Location
from cosmos_batch.planning.generation.aliases import read_generation_parameters
from cosmos_batch.planning.generation.prompts import prompt_text
from cosmos_batch.planning.runs.selection import Selection
from cosmos_batch.planning.runs.sweep import Sweep

MADE_FOLDER = "made"
SEEDS_LIMIT = 1000
_SEEDS = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


@dataclass(frozen=True)
class RunSpec:
    """A run as it is asked for: the names of its inputs, what to ask of each, and how to plan it.

    Attributes
    ----------
    sources
        Prefixes, folders, files, manifests and inventories; none where generations start from the prompts alone.
    request
        What holds for all items.
    sweep
        Prompts and seeds with each of which every input is asked.
    workers
        The number of workers that a person wants the time for; None for the most that the deployment starts.
    skip_invalid
        Whether inputs that cannot be used are left out.
    """

    sources: Sequence[str]
    request: RunRequest
    selection: Selection = field(default_factory=Selection)
    sweep: Sweep = field(default_factory=Sweep)
    workers: int | None = None
    skip_invalid: bool = False


@dataclass(frozen=True)
class RunOptions:
    """The options of `run_options` as they are typed."""

    prompts: Sequence[str]
    pipelines: Sequence[str]
    system_prompt: str | None
    seeds: str | None
    parameters_file: str | None
    include: Sequence[str]
    exclude: Sequence[str]
    skip_invalid: bool
    output: str | None
    table_only: bool
    name: str | None
    max_dollars: float | None
    workers: int | None

    @classmethod
    def take(cls, options: dict[str, Any]) -> Self:
        """Remove these options from the options of a command, and return them.

        The options that are left are parameters of the answers.
        """
        return cls(**{each.name: options.pop(each.name) for each in fields(cls)})


def read_run_spec(
    deployment: Deployment, sources: Sequence[str], options: dict[str, Any], origin: str | None = None
) -> RunSpec:
    """Read the options of `run_options`, by the names of their parameters. Raises WrongCall, or Failure.

    `origin` names the inputs for people, if not by their sources.
    """
    how_to_answer = dict(options)
    run_options = RunOptions.take(how_to_answer)
    names: Sequence[str | None] = run_options.pipelines or [None]
    pipelines = list(dict.fromkeys(chosen_pipeline(name, deployment.pipelines) for name in names))
    surfaces = {pipeline.surface for name in pipelines if (pipeline := pipeline_named(name))}
    if len(surfaces) > 1:
        raise WrongCall(
            f"{' and '.join(pipelines)} cannot answer the same run.",
            "Name reasoners alone or generators alone: their parameters differ.",
        )
    question = (
        _ask_generators(run_options, how_to_answer)
        if surfaces == {"generator"}
        else _ask_reasoners(run_options, how_to_answer)
    )
    if run_options.table_only and surfaces == {"generator"}:
        raise WrongCall("--table-only: a generator makes files.", "Leave it out, or set --output.")
    _check_output(run_options.output)
    if not sources and surfaces != {"generator"}:
        raise WrongCall("There is nothing to ask about.", "Name a prefix, a folder, files or a manifest.")
    return RunSpec(
        sources=sources,
        request=_request(run_options, pipelines, sources, question, deployment, origin or " ".join(sources)),
        selection=Selection(run_options.include, run_options.exclude),
        sweep=Sweep(question["prompts"], read_seeds(run_options.seeds)),
        workers=run_options.workers,
        skip_invalid=run_options.skip_invalid,
    )


def _check_output(output: str | None) -> None:
    """Raise WrongCall for an output on this machine: a run writes its documents while this machine may be off."""
    if output is not None and not output.startswith("s3://"):
        raise WrongCall(
            f"--output {output} is on this machine, and a run writes its documents to S3.",
            "Leave it out, or name s3://bucket/prefix/. To have the answers here once they are there: "
            f"cosmos-batch runs export RUN --format jsonl --output {output}",
        )


def new_run_id() -> str:
    """Return an id for a run that was given no name. Such ids sort by time."""
    return f"run-{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"


def read_seeds(text: str | None) -> list[int]:
    """Return the seeds of a list such as `1,2,10-12`. Raises WrongCall."""
    if text is None:
        return []
    if not _SEEDS.fullmatch(text):
        raise WrongCall(f"--seeds {text} is no list of seeds.", "Write it like 1,2,10-12.")
    seeds: dict[int, None] = {}
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) - int(first) >= SEEDS_LIMIT or int(last or first) >= SEED_LIMIT:
            raise WrongCall(f"--seeds {part} is too much.", f"At most {SEEDS_LIMIT} seeds, each below {SEED_LIMIT}.")
        seeds |= dict.fromkeys(range(int(first), int(last or first) + 1))
    return list(seeds)


def _request(
    run_options: RunOptions,
    pipelines: list[str],
    sources: Sequence[str],
    question: dict[str, Any],
    deployment: Deployment,
    origin: str,
) -> RunRequest:
    prompts = question["prompts"]
    output = run_options.output or (None if sources else _prefix_of_text_generations(deployment))
    try:
        return RunRequest(
            id=run_options.name or new_run_id(),
            pipelines=pipelines,
            output=output,
            input_root=_input_root(sources) if run_options.output else None,
            table_only=run_options.table_only,
            max_dollars=run_options.max_dollars,
            origin=_bounded(origin) or None,
            prompt=prompts[0] if len(prompts) == 1 else None,
            **{name: value for name, value in question.items() if name != "prompts"},
        )
    except ValidationError as error:
        raise WrongCall(explain(error), "`cosmos-batch runs plan --help` says what each option takes.") from error


def _bounded(origin: str) -> str:
    """Return the names of a run's inputs; of very many the first, and a digest that tells them from other inputs."""
    if len(origin) <= ORIGIN_LIMIT:
        return origin
    ending = f" … {hashlib.sha256(origin.encode(errors='surrogateescape')).hexdigest()[:16]}"
    return origin[: ORIGIN_LIMIT - len(ending)] + ending


def _ask_reasoners(run_options: RunOptions, options: dict[str, Any]) -> dict[str, Any]:
    """Return a reasoner run's prompts, system prompt and parameters."""
    first = run_options.prompts[0] if run_options.prompts else None
    request = read_reasoner_request(first, run_options.system_prompt, options)
    if local := [name for name in request.parameters.more_inputs or [] if not name.startswith("s3://")]:
        raise WrongCall(f"--with {local[0]} is a file of this machine.", "Upload it, and name it as s3://bucket/key.")
    of_file = _parameters_of_file(run_options)
    try:
        parameters = read_parameters({**of_file, **request.parameters.model_dump(exclude_unset=True)})
    except ValidationError as error:
        raise WrongCall(explain(error), "docs/reasoner.md says what each parameter takes.") from error
    prompts = [request.prompt] if request.prompt is not None else []
    for further in run_options.prompts[1:]:
        prompt, system_prompt = read_question(further, None, run_options.system_prompt)
        if (system_prompt or None) != request.system_prompt:
            raise WrongCall(
                f"The prompts of a run have one system prompt, and --prompt {further} has another.",
                "Name one for all: --system-prompt TEXT. Or start a run for each.",
            )
        prompts.append(checked_prompt(prompt))
    return {"prompts": prompts, "system_prompt": request.system_prompt, "parameters": parameters}


def _ask_generators(run_options: RunOptions, options: dict[str, Any]) -> dict[str, Any]:
    """Return a generator run's prompts and parameters. Only a file or JSON text sets a generator's parameters."""
    if unusable := [flag(name) for name, value in options.items() if value not in (None, ())]:
        raise WrongCall(
            f"{', '.join(unusable)}: generators are not asked with these options.",
            "Write their parameters into a file of JSON, and name it: --parameters made.json",
        )
    prompts = [prompt_text("prompt", read_description(prompt)) for prompt in run_options.prompts]
    return {"prompts": prompts, "generation": read_generation_parameters(_parameters_of_file(run_options))}


def _parameters_of_file(run_options: RunOptions) -> dict[str, Any]:
    source = run_options.parameters_file
    if source is None:
        return {}
    try:
        values = json.loads(source if source.startswith("{") else Path(source).expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise WrongCall(
            f"--parameters: {source} cannot be read: {file_problem(error)}.", "Name a JSON file."
        ) from error
    if not isinstance(values, dict):
        raise WrongCall(
            f"--parameters: {run_options.parameters_file} is not a JSON object.", 'Write an object such as {"fps": 2}.'
        )
    return values


def _prefix_of_text_generations(deployment: Deployment) -> str:
    """Return the prefix for the results of generations from text alone, if the run names no output.

    All runs have the same one. Raises WrongCall where the deployment has no bucket for files.
    """
    if not deployment.asset_roots:
        raise WrongCall("The deployment has no bucket for files.", "Set storage.assetBuckets, and deploy.")
    bucket, _, prefix = deployment.asset_roots[0].partition("/")
    return S3Location(bucket, f"{prefix}{MADE_FOLDER}/").uri


def _input_root(sources: Sequence[str]) -> str | None:
    """Return the prefix whose folders are mirrored below the output: the run's only source, if that is one."""
    prefixes = [name for name in sources if name.startswith("s3://") and name.endswith("/")]
    return prefixes[0] if len(prefixes) == len(sources) == 1 else None
