"""Runs and their shards: how far a run is, and which of its items have ended.

A shard's row holds the numbers of the items that have ended as a set until the shard ends, so an end that is counted
twice counts once, and every step can be repeated. The sums of a run are the sums over its shards.

The task token of a state that waits for a shard has a row of its own, and the shard's row contains its id. The token's
row is written first and never changes, so whoever reads an id finds the token. What becomes of a token is decided by
changes of the shard's row alone: a change of its state adds an id, or returns those to answer, in one write. A process
that dies between the two rows leaves a token that nobody refers to, and its state fails and feeds the shard again, with
another token. The rows of tokens are removed when they expire: a token that was answered is of no use.

A shard has a row from its first feeding on. So the items that wait are the run's, less those of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from cosmos_batch.contract.runs import RunState, ShardRef
from cosmos_batch.state.run_rows import ItemEnd, RunRow, ShardFacts, ShardRow, token_id
from cosmos_batch.state.table import ConditionFailed, Table, expires_at, now

RUN_KEEP_SECONDS = 365 * 86_400
AT_ONCE = 40  # ends in one update: the condition has a term for each, and DynamoDB takes 4 KB of expression

_RUNS, _ACTIVE = "runs", "runs-active"


class Runs:
    """The rows of all runs and of their shards."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def create(self, run: RunRow) -> bool:
        """Write the row of a new run and list it. Returns False if the run exists; its row is left as it is."""
        values = run.model_dump(by_alias=True)
        try:
            self._table.put_new(_pk(run.id), "run", {**values, "expiresAt": expires_at(RUN_KEEP_SECONDS)})
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
        item = self._table.get(_pk(run), "run")
        return None if item is None else RunRow.model_validate(item)

    def list(self) -> Iterator[RunRow]:
        """Yield all runs, the latest first."""
        return self._listed(_RUNS)

    def active(self) -> Iterator[RunRow]:
        """Yield the runs that have not ended."""
        return self._listed(_ACTIVE)

    def shards(self, run: str) -> Iterator[ShardRow]:
        """Yield the rows of a run's shards in their order; a shard that was never fed has none."""
        return map(ShardRow.model_validate, self._table.iterate(_pk(run), "shard#"))

    def shard(self, run: str, shard: str) -> ShardRow | None:
        """Return the row of a shard, or None if it was never fed."""
        item = self._table.get(_pk(run), _sk(shard))
        return None if item is None else ShardRow.model_validate(item)

    def begin(self, run: str, execution_arn: str, max_dollars: float | None = None) -> RunRow:
        """Note that an execution feeds the run, for the first time or again, and return the row.

        `max_dollars` replaces the run's budget, if it is given. A cancelled run goes on, too: whoever starts another
        execution for it wants that. If it was cancelled before its first execution came to this, it stays cancelled.
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
                "attribute_exists(pk) AND (attribute_exists(#executionArn) OR #state <> :cancelled)",
            )
        except ConditionFailed:
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
        shards = list(self.shards(run.id))
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

    def feed(self, ref: ShardRef, task_token: str, expected_dollars: float) -> ShardRow:
        """Let a state wait for a shard, and mark the shard as one that is being fed unless that is done already.

        A shard that has ended is returned unchanged.
        """
        self._keep_token(ref.run, ref.shard, task_token)
        row = ShardRow(
            run=ref.run,
            shard=ref.shard,
            pipeline=ref.pipeline,
            items=ref.items,
            state="FEEDING",
            expected_dollars=expected_dollars,
            token_ids={token_id(task_token)},
            counted_at=now(),
        )
        values = {name: value for name, value in row.model_dump(by_alias=True).items() if value != set()}
        try:
            self._table.put_new(_pk(ref.run), _sk(ref.shard), {**values, "expiresAt": expires_at(RUN_KEEP_SECONDS)})
            return row
        except ConditionFailed:
            return self._feed_again(ref.run, ref.shard, task_token)

    def _keep_token(self, run: str, shard: str, task_token: str) -> None:
        values = {"taskToken": task_token, "expiresAt": expires_at(RUN_KEEP_SECONDS)}
        with suppress(ConditionFailed):  # an earlier call has kept it
            self._table.put_new(_pk(run), _token_sk(shard, token_id(task_token)), values)

    def tokens(self, shard: ShardRow) -> set[str]:
        """Return the task tokens of the states that wait for a shard, as its row said when it was read."""
        keys = [_token_sk(shard.shard, one) for one in shard.token_ids]
        rows = [self._table.get(_pk(shard.run), key) for key in keys]
        # A row that is gone has expired, and its token long before it.
        return shard.task_tokens | {row["taskToken"] for row in rows if row is not None}

    def _feed_again(self, run: str, shard: str, task_token: str) -> ShardRow:
        """Add a token. One write also ends the parking, so that nobody answers the token as one of a parked shard."""
        ids = {"ids": {token_id(task_token)}}
        values = {**ids, "feeding": "FEEDING", "now": now(), "skipped": "SKIPPED"}
        expression = "SET #state = :feeding, #countedAt = :now ADD #tokenIds :ids"
        try:
            return self._update_shard(run, shard, expression, values, "#state IN (:feeding, :skipped)")
        except ConditionFailed:
            row = self._existing(run, shard)
        if row.state == "ENDED":
            return row
        try:
            values = {**ids, "running": "RUNNING"}
            return self._update_shard(run, shard, "ADD #tokenIds :ids", values, "#state = :running")
        except ConditionFailed:  # it was parked or has ended at this moment
            return self._feed_again(run, shard, task_token)

    def planned(self, run: str, shard: str, execution: str) -> None:
        """Note that an execution's plan of a shard's items is written."""
        values = {"execution": execution}
        self._update_shard(run, shard, "SET #plannedBy = :execution", values, "attribute_exists(pk)")

    def reopen(self, shard: ShardRow) -> ShardRow:
        """Let a shard that has ended with cancelled items be fed again: all its items are counted anew.

        Items that have an answer are found and counted without being asked again. Returns the row.
        """
        numbers = ("succeeded", "failed", "cancelled", "reused", "gpuSeconds", "dollars", "jobs", "weight")
        zeros = ", ".join(f"#{name} = :zero" for name in (*numbers, "promptTokens", "completionTokens"))
        try:
            return self._update_shard(
                shard.run,
                shard.shard,
                f"SET #state = :skipped, #countedAt = :now, #errors = :empty, #seconds = :empty, {zeros} "
                "REMOVE #fedJobs",
                {
                    "skipped": "SKIPPED",
                    "now": now(),
                    "empty": {},
                    "zero": 0,
                    "ended": "ENDED",
                    "then": shard.counted_at,
                },
                "#state = :ended AND #countedAt = :then",
            )
        except ConditionFailed:
            return self._existing(shard.run, shard.shard)

    def fed(self, run: str, shard: str, jobs: int, weight: float) -> ShardRow:
        """Note that all items of a shard are in the queue or have ended, and what they add to the waiting work."""
        values = {"running": "RUNNING", "jobs": jobs, "weight": weight, "feeding": "FEEDING"}
        expression = (
            "SET #state = :running, #jobs = :jobs, #weight = :weight, #fedJobs = if_not_exists(#fedJobs, :jobs)"
        )
        try:
            return self._update_shard(run, shard, expression, values, "#state = :feeding")
        except ConditionFailed:
            return self._existing(run, shard)

    def park(self, run: str, shard: str) -> ShardRow | None:
        """Note that nobody is to wait for a shard until its run goes on, and return the row with the tokens to answer.

        Returns None where the shard is not in flight. What has ended of it stays counted.
        """
        values = {"skipped": "SKIPPED", "feeding": "FEEDING", "running": "RUNNING"}
        try:
            return self._update_shard(run, shard, "SET #state = :skipped", values, "#state IN (:feeding, :running)")
        except ConditionFailed:
            return None

    def settle_parked(self, shard: ShardRow) -> None:
        """Free the reservation of a parked shard, and charge what its items have cost so far."""
        cost = max(shard.dollars, shard.settled_dollars)
        self.settle(shard.run, shard.shard, cost - shard.settled_dollars)
        values = {"cost": cost}
        self._update_shard(shard.run, shard.shard, "SET #settledDollars = :cost", values, "attribute_exists(pk)")

    def forget_tokens(self, shard: ShardRow) -> None:
        """Remove the tokens of a shard that were answered."""
        answered = {"tokenIds": shard.token_ids, "taskTokens": shard.task_tokens}
        values = {name: tokens for name, tokens in answered.items() if tokens}
        if values:
            expression = f"DELETE {', '.join(f'#{name} :{name}' for name in values)}"
            self._update_shard(shard.run, shard.shard, expression, values, "attribute_exists(pk)")

    def count(self, run: str, shard: str, ends: Mapping[int, ItemEnd]) -> ShardRow | None:
        """Count the ends of items, by their number in the shard, each of them once. Returns the shard's row.

        Ends are ignored once the shard has ended. None is returned where there is no such shard.
        """
        row: ShardRow | None = None
        left = dict(ends)
        while left:
            batch = dict(list(left.items())[:AT_ONCE])
            try:
                row = self._count_new(run, shard, batch)
                left = {index: end for index, end in left.items() if index not in batch}
            except ConditionFailed:
                row = self.shard(run, shard)
                if row is None or row.state == "ENDED":
                    return row
                left = {index: end for index, end in left.items() if index not in row.ended}
        return row if row is not None else self.shard(run, shard)

    def _count_new(self, run: str, shard: str, ends: Mapping[int, ItemEnd]) -> ShardRow:
        """Count ends of which none was counted before. Raises ConditionFailed."""
        values: dict[str, Any] = {f"i{index}": index for index in ends}
        terms = ["#state <> :over", *(f"NOT contains(#ended, :i{index})" for index in ends)]
        values |= {"over": "ENDED", "ended": set(ends), "now": now()}
        added = ["#ended :ended"]
        for name, number in _sums(ends.values()).items():
            if number:
                values[name] = number
                added.append(f"#{name} :{name}")
        expression = f"SET #countedAt = :now ADD {', '.join(added)}"
        return self._update_shard(run, shard, expression, values, f"attribute_exists(pk) AND {' AND '.join(terms)}")

    def end_shard(self, run: str, shard: str, facts: ShardFacts) -> bool:
        """Note that a shard's results are written, and what is in them. Returns False if that was noted before."""
        self.settle(run, shard, facts.dollars - self._existing(run, shard).settled_dollars)
        noted = {
            "succeeded": facts.succeeded,
            "failed": facts.failed,
            "cancelled": facts.cancelled,
            "reused": facts.reused,
            "gpuSeconds": facts.gpu_seconds,
            "dollars": facts.dollars,
            "settledDollars": facts.dollars,
            "errors": facts.errors,
            "promptTokens": facts.prompt_tokens,
            "completionTokens": facts.completion_tokens,
            "seconds": facts.seconds,
        }
        changes = ", ".join(f"#{name} = :{name}" for name in noted)
        try:
            self._update_shard(
                run,
                shard,
                f"SET #state = :over, #countedAt = :now, {changes} REMOVE #ended, #tokenIds, #taskTokens",
                {"over": "ENDED", "now": now(), **noted},
                "#state <> :over",
            )
        except ConditionFailed:
            return False
        return True

    def looked_at(self, run: str, shard: str) -> None:
        """Note that a shard was looked at, so that it is not looked at again at once."""
        self._update_shard(run, shard, "SET #countedAt = :now", {"now": now()}, "attribute_exists(pk)")

    def in_flight(self, run: RunRow) -> Iterator[ShardRow]:
        """Yield the shards of a run that are being fed or have items in flight, without reading the others."""
        for shard in sorted(self.add_reservations(run).reservations):
            row = self.shard(run.id, shard)
            if row is not None and row.in_flight:
                yield row

    def _existing(self, run: str, shard: str) -> ShardRow:
        row = self.shard(run, shard)
        assert row is not None, "a condition on this row has failed"
        return row

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
        return RunRow.model_validate(self._table.update(_pk(run), "run", expression, values, condition))

    def _update_shard(
        self, run: str, shard: str, expression: str, values: Mapping[str, Any], condition: str
    ) -> ShardRow:
        return ShardRow.model_validate(self._table.update(_pk(run), _sk(shard), expression, values, condition))


def _sums(ends: Iterable[ItemEnd]) -> dict[str, float]:
    """Return what ends add to the attributes of their shard's row."""
    listed = list(ends)
    counts = {name: sum(end.outcome == name for end in listed) for name in ("succeeded", "failed", "cancelled")}
    return {
        **counts,
        "reused": sum(end.reused for end in listed),
        "gpuSeconds": round(sum(end.gpu_seconds for end in listed), 6),
        "dollars": round(sum(end.dollars for end in listed), 9),
    }


def _pk(run: str) -> str:
    return f"run#{run}"


def _sk(shard: str) -> str:
    return f"shard#{shard}"


def _token_sk(shard: str, one: str) -> str:
    return f"token#{shard}#{one}"
