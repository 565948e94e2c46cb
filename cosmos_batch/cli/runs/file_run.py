"""Ask one pipeline one question about all files that `submit` or `run` was given, as a run."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import chain
from typing import Any

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.input_checks import chosen_reasoner
from cosmos_batch.cli.job_result import JobResult
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.output import OutputTarget
from cosmos_batch.cli.runs.confirm_and_start import plan_and_begin
from cosmos_batch.cli.runs.export.formats import FORMATS
from cosmos_batch.cli.runs.run_display import run_display
from cosmos_batch.cli.runs.run_request import RunOptions, RunSpec, read_run_spec
from cosmos_batch.cli.runs.run_snapshot import RunSnapshot
from cosmos_batch.cli.runs.run_watcher import RunWatcher
from cosmos_batch.cli.runs.sources import is_single_file
from cosmos_batch.cli.runs.stored_run import StoredRun, stored_run
from cosmos_batch.cli.runs.wording import cost_in_words, counts_in_words
from cosmos_batch.contract.runs import PlannedItem
from cosmos_batch.state import FINAL


def is_many_files(names: Sequence[str]) -> bool:
    """Return whether these names are asked about by a run: several files, a folder, a prefix or a manifest."""
    return len(names) > 1 or not is_single_file(names[0])


def read_file_run(
    deployment: Deployment, names: Sequence[str], question: dict[str, Any], skip_invalid: bool, origin: str
) -> RunSpec:
    """Return the run that asks a question, as the options of `reasoner_options` put it, about each of the files.

    `origin` has the inputs as a person typed them; the files may be parts that were cut out of those.
    """
    how_to_answer = dict(question)
    prompt, pipeline = how_to_answer.pop("prompt"), how_to_answer.pop("pipeline")
    options = {
        **dict.fromkeys(each.name for each in fields(RunOptions)),
        **how_to_answer,
        "prompts": [prompt] if prompt is not None else [],
        "pipelines": [chosen_reasoner(pipeline, deployment.pipelines)],
        "include": (),
        "exclude": (),
        "skip_invalid": skip_invalid,
        "table_only": False,
    }
    return read_run_spec(deployment, names, options, origin)


def answer_files(deployment: Deployment, spec: RunSpec, target: OutputTarget | None) -> Iterator[JobResult]:
    """Begin a run, show it until it has ended, and yield the result of each item; a folder gets the run's table too.

    After Ctrl-C the results of the items that have ended are yielded before KeyboardInterrupt is raised: the cloud may
    end with the command. Raises CliError after the last result where the run was held, or could not go on.
    """
    planned = plan_and_begin(deployment, spec)
    run = planned.request.id
    try:
        with run_display() as display:
            state = RunWatcher(deployment, run).watch(display)
    except KeyboardInterrupt:
        inform("Interrupted: these files were answered until then")
        yield from _ended_items(deployment, run)
        raise
    inform(f"{counts_in_words(state.counts)}; {cost_in_words(deployment, state)}")
    yield from _ended_items(deployment, run)
    if target is not None and target.is_folder:
        _save_table(stored_run(deployment, run), target)
    _refuse_unfinished(deployment, state)


def _ended_items(deployment: Deployment, run: str) -> Iterator[JobResult]:
    """Yield the result of each item that has ended, also of a shard that goes on."""
    objects = stored_run(deployment, run)
    fed = ((row.planned_by, row.shard) for row in deployment.runs.shards.of_run(run) if row.planned_by is not None)
    for planned in chain.from_iterable(objects.planned_items(*shard) for shard in fed):
        result = _result_of(deployment, planned)
        if result is not None:
            inform(f"{planned.item.id}:")
            yield result


def _result_of(deployment: Deployment, planned: PlannedItem) -> JobResult | None:
    if planned.job is None:
        return JobResult(error=planned.error)
    row = deployment.jobs.get(planned.job.job_id)
    if row is None or row.result is None or row.state not in FINAL:
        return None
    if row.result.error is not None:
        return JobResult(error=row.result.error, job_id=row.job_id)
    written = [output.uri for output in row.result.outputs]
    return JobResult(document_uri=row.document, file_uris=written or [row.document], job_id=row.job_id)


def _save_table(objects: StoredRun, target: OutputTarget) -> None:
    table = FORMATS["jsonl"]
    path = target.save(f"{objects.run}{table.ending}", lambda path: table.write(objects, objects.lines(), path))
    inform(f"The table of all answers and errors: {path}")


def _refuse_unfinished(deployment: Deployment, state: RunSnapshot) -> None:
    """Raise CliError where a run has ended without having asked about every file."""
    if state.row is not None and state.name != "SUCCEEDED":
        remedy = "Run the same command again: it asks about the missing files alone, and no answer is paid for twice."
        if deployment.ends_with_command:
            remedy = (
                "Start a cloud that keeps its answers, cosmos-batch local up, and run the command again, without "
                "--model and --endpoint: config.json names the model there."
            )
        raise CliError(f"{state.run} {state.name}: {state.row.reason or 'it could not go on.'}", remedy)
