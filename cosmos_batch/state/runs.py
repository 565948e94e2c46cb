"""Runs over many files: how far each is, and what it may spend. The sums of a run are those over its shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cosmos_batch.contract.runs import RunState
from cosmos_batch.state.run_rows import RUN_KEEP_SECONDS, RunRow, ShardFacts, ShardRow, run_pk
from cosmos_batch.state.shards import Shards
from cosmos_batch.state.table import ConditionFailed, Table, expires_at, now

_RUNS, _ACTIVE = "runs", "runs-active"


class StillEnding(Exception):  # noqa: N818 - it passes
    """A cancelled run is not over yet, so that no execution can go on with it."""


class Runs:
    """The rows of all runs. `shards` are the rows of their shards."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.shards = Shards(table)

    def create(self, run: RunRow) -> bool:
        """Write the row of a new run and list it. Returns False if the run exists; its row is left as it is."""
        values = run.model_dump(by_alias=True)
        try:
            self._table.put_new(run_pk(run.id), "run", {**values, "expiresAt": expires_at(RUN_KEEP_SECONDS)})
            created = True
        except ConditionFailed:
            earlier = self.get(run.id)
            assert earlier is not None, "a run's row is kept for a year"
            run, created = earlier, False
        self._list_under(_RUNS, f"{run.started_at}#{run.id}", run.id)
        if run.ended_at is None:
            self._list_under(_ACTIVE, run.id, run.id)
        return created

    def get(self, run: str) -> RunRow | None:
        """Return the run's row, or None if there is no such run."""
        item = self._table.get(run_pk(run), "run")
        return None if item is None else RunRow.model_validate(item)

    def list(self) -> Iterator[RunRow]:
        """Yield all runs, the latest first."""
        return self._listed(_RUNS)

    def active(self) -> Iterator[RunRow]:
        """Yield the runs that have not ended."""
        return self._listed(_ACTIVE)

    def begin(self, run: str, execution_arn: str, max_dollars: float | None = None) -> RunRow:
        """Note that an execution feeds the run, for the first time or again, and return the row.

        `max_dollars` replaces the run's budget, if it is given. A cancelled run goes on, too: whoever starts another
        execution for it wants that. If it was cancelled before an execution of its own came to this, or between two
        calls for the same one, it stays cancelled.

        Raises StillEnding while another execution ends the cancelled run: items that are dropped until then would
        be missing in what goes on.
        """
        values: dict[str, Any] = {"running": "RUNNING", "arn": execution_arn, "none": {}, "zero": 0}
        values["cancelled"] = "CANCELLED"
        budget = ""
        if max_dollars is not None:
            values["budget"], budget = max_dollars, ", #maxDollars = :budget"
        self._list_under(_ACTIVE, run, run)
        try:
            return self._update_run(
                run,
                "SET #state = :running, #executionArn = :arn, #reservations = if_not_exists(#reservations, :none), "
                f"#chargedDollars = if_not_exists(#chargedDollars, :zero){budget} REMOVE #reason, #endedAt",
                values,
                "attribute_exists(pk) AND (attribute_exists(#endedAt) OR #state <> :cancelled)",
            )
        except ConditionFailed:
            row = self.get(run)
        if row is not None and row.execution_arn not in (None, execution_arn):
            raise StillEnding(
                f"The run {run} was cancelled and has not ended yet. This execution goes on with it once it has. If it "
                f"does not end: cosmos-batch runs cancel {run}"
            )
        return self.finish_cancelled(run, execution_arn)

    def finish_cancelled(self, run: str, execution_arn: str) -> RunRow:
        """Note that an execution finishes a cancelled run, of which nothing is fed.

        Raises ConditionFailed where the run goes on, or is finished already.
        """
        values = {"arn": execution_arn, "cancelled": "CANCELLED"}
        condition = "#state = :cancelled AND attribute_not_exists(#endedAt)"
        row = self._update_run(run, "SET #executionArn = :arn", values, condition)
        self._list_under(_ACTIVE, run, run)
        return row

    def hold(self, run: str, reason: str) -> RunRow:
        """Feed no further shard of a running run until it is resumed. What is in the queue is done."""
        return self._stop(run, "HELD", reason, ("STARTING", "RUNNING"))

    def cancel(self, run: str, reason: str) -> RunRow:
        """Feed no further shard, and drop the items that have not ended. Does nothing once the run has ended."""
        return self._stop(run, "CANCELLED", reason, ("STARTING", "RUNNING", "HELD"))

    def fail(self, run: str, reason: str) -> RunRow:
        """Feed no further shard, because the run itself could not go on. Does nothing once the run has ended."""
        return self._stop(run, "FAILED", reason, ("STARTING", "RUNNING"))

    def _stop(self, run: str, state: RunState, reason: str, before: tuple[RunState, ...]) -> RunRow:
        states = {f"state{number}": name for number, name in enumerate(before)}
        try:
            return self._update_run(
                run,
                "SET #state = :state, #reason = :reason REMOVE #endedAt",  # a held run that was over ends again
                {"state": state, "reason": reason, **states},
                f"#state IN ({', '.join(f':{name}' for name in states)})",
            )
        except ConditionFailed:
            row = self.get(run)
            if row is None:
                raise
            return row

    def end(self, run: str, execution_arn: str, state: RunState, reason: str | None) -> bool:
        """Note the end of an execution of the run. Returns False if a later execution feeds it."""
        try:
            self._update_run(
                run,
                "SET #state = :state, #endedAt = :now, #reason = :reason",
                {"state": state, "now": now(), "reason": reason, "arn": execution_arn},
                "#executionArn = :arn",
            )
        except ConditionFailed:
            return False
        self._table.delete(_ACTIVE, run)
        return True

    def add_reservations(self, run: RunRow) -> RunRow:
        """Return the run's row, after adding the reservations that an earlier release did not write into it.

        Shards in flight are charged with what was expected of them, and the others with what they have cost.
        """
        if run.has_reservations:
            return run
        shards = list(self.shards.of_run(run.id))
        reservations = {row.shard: row.expected_dollars for row in shards if row.in_flight}
        spent = sum(row.dollars for row in shards if not row.in_flight)
        values = {"reservations": reservations, "charged": round(spent + sum(reservations.values()), 9)}
        expression = "SET #reservations = :reservations, #chargedDollars = :charged"
        try:
            return self._update_run(run.id, expression, values, "attribute_not_exists(#reservations)")
        except ConditionFailed:
            row = self.get(run.id)
            assert row is not None, "a condition on this row has failed"
            return row

    def reserve(self, run: str, shard: str, dollars: float, budget: float | None) -> bool:
        """Reserve the expected price of a shard that is to be fed. Returns False if the budget does not allow it.

        One write compares and adds, so shards that are fed at the same time cannot exceed the budget together. A shard
        that has a reservation keeps it.
        """
        values = {"dollars": dollars}
        condition = f"attribute_not_exists(#reservations.#{shard})"
        if budget is not None:
            values["room"] = round(budget - dollars, 9)
            condition += " AND #chargedDollars <= :room"
        try:
            expression = f"SET #reservations.#{shard} = :dollars ADD #chargedDollars :dollars"
            self._update_run(run, expression, values, condition)
        except ConditionFailed:
            row = self.get(run)
            return row is not None and shard in row.reservations
        return True

    def settle(self, run: str, shard: str, dollars: float) -> None:
        """Replace a shard's reservation by what it has cost since it was settled last, unless that is done already."""
        row = self.get(run)
        reserved = None if row is None else row.reservations.get(shard)
        if reserved is None:
            return
        expression = f"REMOVE #reservations.#{shard} ADD #chargedDollars :change"
        values = {"change": round(dollars - reserved, 9), "reserved": reserved}
        try:
            self._update_run(run, expression, values, f"#reservations.#{shard} = :reserved")
        except ConditionFailed:
            return

    def settle_parked(self, shard: ShardRow) -> None:
        """Free the reservation of a parked shard, and charge what its items have cost so far."""
        cost = max(shard.dollars, shard.settled_dollars)
        self.settle(shard.run, shard.shard, cost - shard.settled_dollars)
        self.shards.settled(shard.run, shard.shard, cost)

    def end_shard(self, run: str, shard: str, facts: ShardFacts) -> bool:
        """Charge a shard's cost to its run, and record that its results are written, with their sums.

        Returns False if the end was recorded before.
        """
        row = self.shards.get(run, shard)
        assert row is not None, "a shard was fed before it ends"
        self.settle(run, shard, facts.dollars - row.settled_dollars)
        return self.shards.end(run, shard, facts)

    def in_flight(self, run: RunRow) -> Iterator[ShardRow]:
        """Yield the shards of a run that are being fed or have items in flight, without reading the others."""
        for shard in sorted(self.add_reservations(run).reservations):
            row = self.shards.get(run.id, shard)
            if row is not None and row.in_flight:
                yield row

    def _listed(self, index: str) -> Iterator[RunRow]:
        for item in self._table.iterate(index, newest_first=True):
            row = self.get(item["run"])
            if row is not None:
                yield row

    def _list_under(self, index: str, sk: str, run: str) -> None:
        try:
            self._table.put_new(index, sk, {"run": run, "expiresAt": expires_at(RUN_KEEP_SECONDS)})
        except ConditionFailed:
            return

    def _update_run(self, run: str, expression: str, values: Mapping[str, Any], condition: str) -> RunRow:
        return RunRow.model_validate(self._table.update(run_pk(run), "run", expression, values, condition))
