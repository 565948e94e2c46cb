"""Compare two runs for the console, as `cosmos-batch runs diff` compares them."""

from itertools import islice

from cosmos_batch.cli.runs.comparison import FAILS_IN_BOTH, SAME, ComparedItem, Difference, KeyKind, compared
from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.console.run_records import ComparedEnd, ComparedPair, ComparedRuns

_SHOWN = 500  # differences


def compare_runs(first: StoredRun, second: StoredRun, by: KeyKind) -> ComparedRuns:
    """Return how many items two runs answer alike, and the first of those that they answer differently.

    Items belong together by their ids, or by their files and variants. Raises CliError where that is ambiguous.
    """
    with compared(first, second, by) as comparison:
        counts = comparison.counts()
        without_two_answers = ("only in the first", "only in the second", FAILS_IN_BOTH)
        in_both = sum(number for change, number in counts.items() if change not in without_two_answers)
        return ComparedRuns(
            counts=counts,
            agreement=counts.get(SAME, 0) / in_both if in_both else None,
            pairs=[_pair(difference) for difference in islice(comparison.differences(), _SHOWN)],
        )


def _pair(difference: Difference) -> ComparedPair:
    return ComparedPair(
        item=difference.id,
        input=difference.input or "",
        change=difference.change,
        first=_end(difference.first),
        second=_end(difference.second),
    )


def _end(end: ComparedItem | None) -> ComparedEnd | None:
    return None if end is None else ComparedEnd(item=end.id, answer=end.answer, error=end.error)
