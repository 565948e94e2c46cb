"""The turns in which all shards of all runs are fed, so that a new table and S3 are not throttled.

All functions that feed shards share one row, which holds the time until which turns are taken. A turn is taken by one
conditional write.
"""

from cosmos_batch.state.table import ConditionFailed, Table

ITEMS_PER_SECOND = 480.0
"""How many items are fed in a second. An item with the longest keys of S3 writes 8 units (tested in
tests/lambdas/runs/test_table_limits.py), and a new table on demand takes 4,000 in a second (decision 078). Shards begin
in turns and are fed side by side, so in some seconds slightly more items are fed: a twenty-fifth is left for that."""

LONGEST_WAIT = 5.0
"""Seconds for which a function waits for its turn. If it would be longer, it is called again later."""


class FeedTurns:
    """The row in the state table that holds the time until which turns are taken."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def take(self, items: int, now: float) -> float | None:
        """Take the next turn, which is long enough to feed `items`, and return the seconds until it begins.

        `now` is in seconds since 1970. Returns None, and takes none, where that would be longer than `LONGEST_WAIT`.
        """
        length = round(items / ITEMS_PER_SECOND, 3)
        values = {"now": round(now, 3), "end": round(now + length, 3)}
        try:
            self._update("SET #takenUntil = :end", values, "attribute_not_exists(#takenUntil) OR #takenUntil <= :now")
            return 0.0
        except ConditionFailed:
            pass
        values = {"length": length, "latest": round(now + LONGEST_WAIT, 3)}
        try:
            end = self._update("SET #takenUntil = #takenUntil + :length", values, "#takenUntil <= :latest")
        except ConditionFailed:
            return None
        return max(0.0, end - length - now)

    def _update(self, expression: str, values: dict[str, float], condition: str) -> float:
        return float(self._table.update("feeding", "turns", expression, values, condition)["takenUntil"])
