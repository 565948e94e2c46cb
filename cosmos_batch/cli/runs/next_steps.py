"""Name the commands that a person can type next, after the state of a run."""

from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.runs.run_snapshot import RunSnapshot


def print_next_steps(state: RunSnapshot, goes_on: bool) -> None:
    """Name the commands that go on from a run's state. A run of a cloud that was stopped can only be read."""
    for step in [*(_steps_that_go_on(state) if goes_on else []), *_steps_that_read(state)]:
        inform(step)


def _steps_that_go_on(state: RunSnapshot) -> list[str]:
    run, counts = state.run, state.counts
    steps = []
    if state.row is None or (state.over and counts.done < counts.items):
        steps.append(f"To go on with it:      cosmos-batch runs resume {run}")
    elif not state.over:
        steps.append(f"To follow it:          cosmos-batch runs watch {run}")
    if state.over and counts.failed + counts.cancelled:
        steps.append(f"To ask again:          cosmos-batch runs retry {run} --failed")
    return steps


def _steps_that_read(state: RunSnapshot) -> list[str]:
    if not state.counts.done:
        return []
    return [f"To save the answers:   cosmos-batch runs export {state.run} --format csv --output {state.run}.csv"]
