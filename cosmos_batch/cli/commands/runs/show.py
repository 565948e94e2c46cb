"""`cosmos-batch runs show`: show all that is known of a run."""

import json

import click

from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.runs.failure_kinds import FailureKind, failure_kinds, failure_lines
from cosmos_batch.cli.runs.next_steps import print_next_steps
from cosmos_batch.cli.runs.run_snapshot import RunSnapshot, read_run_snapshot
from cosmos_batch.cli.runs.stored_run import StoredRun, stored_run
from cosmos_batch.cli.runs.wording import cost_in_words, counts_in_words, duration_in_words, moment_in_words
from cosmos_batch.cli.stopped_clouds.lookup import find_with_run
from cosmos_batch.contract.run_keys import ERRORS


@click.command(cls=CosmosCommand, examples=["cosmos-batch runs show RUN", "cosmos-batch runs show RUN --json"])
@click.argument("run", metavar="RUN")
@option("--json", "as_json", is_flag=True, help="Print all that is known, as one JSON object.")
def command(run: str, as_json: bool) -> int:
    """Show how far a run is, what it costs, where its results lie, and its errors by code with a remedy for each."""
    deployment = find_with_run(run)
    state = read_run_snapshot(deployment, run)
    objects = stored_run(deployment, run)
    kinds = failure_kinds(objects.lines(ERRORS))
    if as_json:
        print(json.dumps(_as_json(state, objects, kinds), indent=2, ensure_ascii=False))
        return 0
    print("\n".join([run, *_fields(deployment, state, objects), *failure_lines(kinds)]))
    print_next_steps(state, goes_on=deployment.is_alive)
    return 0


def _fields(deployment: Deployment, state: RunSnapshot, objects: StoredRun) -> list[str]:
    request, row, summary = objects.request(), state.row, objects.summary()
    quantiles = summary.seconds_quantiles if summary and state.over else {}
    fields = {
        "state": state.name,
        "reason": row.reason if row else "`cosmos-batch runs start` was interrupted: `runs resume` begins it.",
        "inputs": request.origin,
        "pipelines": ", ".join(request.pipelines),
        "prompt": request.prompt,
        "started": moment_in_words(row.started_at if row else None),
        "ended": moment_in_words(row.ended_at if row else None),
        "items": counts_in_words(state.counts),
        "cost": cost_in_words(deployment, state),
        "of one item": ", ".join(f"{name} {duration_in_words(seconds)}" for name, seconds in quantiles.items()),
        "documents": "in the tables alone" if request.table_only else request.output or "beside each file",
        "tables": f"{objects.uri}results/ and errors/",
    }
    return [f"  {name:12} {text}" for name, text in fields.items() if text]


def _as_json(state: RunSnapshot, objects: StoredRun, kinds: list[FailureKind]) -> dict[str, object]:
    return {
        **state.to_json(),
        "request": objects.request().model_dump(mode="json", exclude_defaults=True),
        "errors": [kind.to_json() for kind in kinds],
        "results": f"{objects.uri}results/",
        "errorLines": f"{objects.uri}errors/",
    }
