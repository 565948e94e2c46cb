"""Write the plan of a run as lines for a person."""

from collections.abc import Iterator, Mapping, Sequence

from cosmos_batch.contract.counting import counted
from cosmos_batch.planning.runs.estimate import PipelineEstimate, RunEstimate

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def plan_lines(run: str, estimate: RunEstimate) -> Iterator[str]:
    """Yield the lines of a run's plan."""
    yield f"Run {run}"
    yield f"  inputs   {_inputs(estimate)}"
    for line in left_out_lines(estimate.left_out, estimate.left_out_names):
        yield f"  left out {line}"
    if estimate.uploads:
        uploads = counted(estimate.uploads, "file")
        yield f"  upload   {uploads} of this machine first, {byte_size(estimate.upload_bytes)}"
    if estimate.copies:
        copies = counted(estimate.copies, "file")
        yield f"  copy     {copies} from https addresses first, whose size the plan does not know"
    if estimate.unchecked:
        yield f"  note     not looked at: {counted(estimate.unchecked, 'named file')}; those that are gone fail alone"
    yield f"  items    {estimate.items:,}{_answered_before(estimate)}"
    for part in estimate.pipelines:
        yield f"  GPUs     {_pipeline(part)}"
    yield (
        f"  cost     about ${estimate.dollars:,.2f}: GPUs ${estimate.gpu_dollars:,.2f}, their starts and idle time "
        f"${estimate.starting_dollars:,.2f}, orchestration ${estimate.orchestration_dollars:,.2f}; "
        f"storage ${estimate.storage_dollars_per_month:,.2f} a month"
    )
    yield f"  time     {_time(estimate)}"
    yield f"  prices   {estimate.prices}; no cost on a local cloud"


def left_out_lines(counts: Mapping[str, int], names: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a line for each reason why files are left out, with their number and the names of the first of them.

    >>> list(left_out_lines({"empty files": 3}, {"empty files": ["a.mp4", "b.mp4"]}))
    ['empty files: 3 (a.mp4, b.mp4 and 1 more)']
    """
    for why, count in sorted(counts.items()):
        named = names.get(why, ())
        more = f" and {count - len(named):,} more" if count > len(named) else ""
        yield f"{why}: {count:,}" + (f" ({', '.join(named)}{more})" if named else "")


def byte_size(count: float) -> str:
    """Return a number of bytes in the largest unit of which there is one.

    >>> byte_size(1_250_000)
    '1.2 MB'
    """
    for unit in _UNITS[:-1]:
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} {_UNITS[-1]}"


def duration(hours: float) -> str:
    """Return hours as a person says them.

    >>> duration(0.5), duration(1.26)
    ('30 min', '1.3 h')
    """
    if hours < 1 / 60:
        return f"{hours * 3600:.0f} s"
    return f"{hours * 60:.0f} min" if hours < 1 else f"{hours:,.1f} h" if hours < 72 else f"{hours / 24:,.1f} days"


def _inputs(estimate: RunEstimate) -> str:
    if estimate.prompts == estimate.files:
        return "prompts alone, no file"
    text = f"{counted(estimate.files - estimate.prompts, 'file')}, {byte_size(estimate.bytes)}"
    if estimate.prompts:
        text += f", and {counted(estimate.prompts, 'prompt')} without a file"
    if estimate.video_seconds:
        text += f", about {duration(estimate.video_seconds / 3600)} of video"
    if estimate.probed < estimate.files and estimate.probed + estimate.unreadable:
        text += f" (from a sample of {estimate.probed + estimate.unreadable:,})"
    if estimate.unreadable:
        text += f"; no size in the header of {estimate.unreadable:,} of the sample"
    return text


def _answered_before(estimate: RunEstimate) -> str:
    """Return the words about the items that an earlier run has answered; empty if there are none."""
    if not estimate.done:
        return ""
    return f"; {estimate.done:,} of them answered by {estimate.done_by}, at no cost if nothing has changed"


def _pipeline(part: PipelineEstimate) -> str:
    return (
        f"{part.pipeline}: {part.gpu_hours:,.2f} GPU-hours on workers of {part.gpu}, by {part.basis}; "
        f"{part.workers:,} of at most {counted(part.max_workers, 'worker')} will start"
    )


def _time(estimate: RunEstimate) -> str:
    *others, last = (part.max_workers for part in estimate.pipelines)
    most = ", ".join([*map(str, others), counted(last, "worker")])
    text = f"about {duration(estimate.hours)} with at most {most}, their start included"
    if estimate.hours_with_workers is not None:
        text += f"; {duration(estimate.hours_with_workers)} with the number asked for"
    if estimate.error_share is not None and estimate.probed < estimate.files:
        text += f"; the sample leaves the work open by {estimate.error_share:.0%}"
    return text
