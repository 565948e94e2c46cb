"""What a person can do next with a run, told after its state."""

from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.runs.run_snapshot import RunSnapshot


def print_next_steps(state: RunSnapshot) -> None:
    """Name the commands that go on from a run's state."""
    for step in next_steps(state):
        inform(step)


def next_steps(state: RunSnapshot) -> list[str]:
    """Return a line for each command that goes on from a run's state."""
    run, counts = state.run, state.counts
    steps = []
    if state.row is None or (state.over and counts.done < counts.items):
        steps.append(f"To go on with it:      cosmos-batch runs resume {run}")
    elif not state.over:
        steps.append(f"To follow it:          cosmos-batch runs watch {run}")
    if state.over and counts.failed + counts.cancelled:
        steps.append(f"To ask again:          cosmos-batch runs retry {run} --failed")
    if counts.done:
        steps.append(f"To save the answers:   cosmos-batch runs export {run} --format csv --output {run}.csv")
    return steps
