"""The shards of runs: which of their items have ended, and which task tokens wait for them.

A shard's row holds the numbers of the items that have ended as a set until the shard ends, so an end that is counted
twice counts once, and every step can be repeated.

The task token of a state that waits for a shard has a row of its own, and the shard's row contains its id. The token's
row is written first and never changes, so whoever reads an id finds the token. What becomes of a token is decided by
changes of the shard's row alone: a change of its state adds an id, or returns those to answer, in one write. A process
that dies between the two rows leaves a token that nobody refers to, and its state fails and feeds the shard again, with
another token. The rows of tokens are removed when they expire, soon after the states that wait with them: whoever
answers a token may change rows and delete none.

A shard has a row from its first feeding on. So the items that wait are the run's, less those of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from cosmos_batch.contract.runs import ShardRef
from cosmos_batch.state.run_rows import (
    RUN_KEEP_SECONDS,
    TOKEN_KEEP_SECONDS,
    ItemEnd,
    ShardFacts,
    ShardRow,
    run_pk,
    token_id,
)
from cosmos_batch.state.table import ConditionFailed, Table, expires_at, now

AT_ONCE = 40  # ends in one update: the condition has a term for each, and DynamoDB takes 4 KB of expression


class Shards:
    """The rows of the shards of all runs, and of the task tokens that wait for them."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def of_run(self, run: str) -> Iterator[ShardRow]:
        """Yield the rows of a run's shards in their order; a shard that was never fed has none."""
        return map(ShardRow.model_validate, self._table.iterate(run_pk(run), "shard#"))

    def get(self, run: str, shard: str) -> ShardRow | None:
        """Return the row of a shard, or None if it was never fed."""
        item = self._table.get(run_pk(run), _sk(shard))
        return None if item is None else ShardRow.model_validate(item)

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
            self._table.put_new(run_pk(ref.run), _sk(ref.shard), {**values, "expiresAt": expires_at(RUN_KEEP_SECONDS)})
            return row
        except ConditionFailed:
            return self._feed_again(ref.run, ref.shard, task_token)

    def _keep_token(self, run: str, shard: str, task_token: str) -> None:
        values = {"taskToken": task_token, "expiresAt": expires_at(TOKEN_KEEP_SECONDS)}
        with suppress(ConditionFailed):  # an earlier call has kept it
            self._table.put_new(run_pk(run), _token_sk(shard, token_id(task_token)), values)

    def tokens(self, shard: ShardRow) -> set[str]:
        """Return the task tokens of the states that wait for a shard, as its row said when it was read."""
        keys = [_token_sk(shard.shard, one) for one in shard.token_ids]
        rows = [self._table.get(run_pk(shard.run), key) for key in keys]
        # A row that is gone has expired, and its token long before it.
        return shard.task_tokens | {row["taskToken"] for row in rows if row is not None}

    def _feed_again(self, run: str, shard: str, task_token: str) -> ShardRow:
        """Add a token. One write also ends the parking, so that nobody answers the token as one of a parked shard."""
        ids = {"ids": {token_id(task_token)}}
        values = {**ids, "feeding": "FEEDING", "now": now(), "skipped": "SKIPPED"}
        expression = "SET #state = :feeding, #countedAt = :now ADD #tokenIds :ids"
        try:
            return self._update(run, shard, expression, values, "#state IN (:feeding, :skipped)")
        except ConditionFailed:
            row = self._existing(run, shard)
        if row.state == "ENDED":
            return row
        try:
            values = {**ids, "running": "RUNNING"}
            return self._update(run, shard, "ADD #tokenIds :ids", values, "#state = :running")
        except ConditionFailed:  # it was parked or has ended at this moment
            return self._feed_again(run, shard, task_token)

    def planned(self, run: str, shard: str, execution: str) -> None:
        """Note that an execution's plan of a shard's items is written."""
        values = {"execution": execution}
        self._update(run, shard, "SET #plannedBy = :execution", values, "attribute_exists(pk)")

    def reopen(self, shard: ShardRow) -> ShardRow:
        """Let a shard that has ended with cancelled items be fed again: all its items are counted anew.

        Items that have an answer are found and counted without being asked again. Returns the row.
        """
        numbers = ("succeeded", "failed", "cancelled", "reused", "gpuSeconds", "dollars", "jobs", "weight")
        zeros = ", ".join(f"#{name} = :zero" for name in (*numbers, "promptTokens", "completionTokens"))
        try:
            return self._update(
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
            return self._update(run, shard, expression, values, "#state = :feeding")
        except ConditionFailed:
            return self._existing(run, shard)

    def park(self, run: str, shard: str) -> ShardRow | None:
        """Note that nobody is to wait for a shard until its run goes on, and return the row with the tokens to answer.

        Returns None where the shard is not in flight. What has ended of it stays counted.
        """
        values = {"skipped": "SKIPPED", "feeding": "FEEDING", "running": "RUNNING"}
        try:
            return self._update(run, shard, "SET #state = :skipped", values, "#state IN (:feeding, :running)")
        except ConditionFailed:
            return None

    def forget_tokens(self, shard: ShardRow) -> None:
        """Remove the ids of a shard's tokens that were answered; the rows of the tokens expire."""
        self._forget(shard.run, shard.shard, tokenIds=shard.token_ids, taskTokens=shard.task_tokens)

    def forget_token(self, ref: ShardRef, task_token: str) -> None:
        """Remove the id of one token of a shard that will be answered."""
        self._forget(ref.run, ref.shard, tokenIds={token_id(task_token)})

    def _forget(self, run: str, shard: str, **answered: set[str]) -> None:
        values = {name: tokens for name, tokens in answered.items() if tokens}
        if values:
            expression = f"DELETE {', '.join(f'#{name} :{name}' for name in values)}"
            self._update(run, shard, expression, values, "attribute_exists(pk)")

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
                row = self.get(run, shard)
                if row is None or row.state == "ENDED":
                    return row
                left = {index: end for index, end in left.items() if index not in row.ended}
        return row if row is not None else self.get(run, shard)

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
        return self._update(run, shard, expression, values, f"attribute_exists(pk) AND {' AND '.join(terms)}")

    def end(self, run: str, shard: str, facts: ShardFacts) -> bool:
        """Record that a shard's results are written, with their sums. Returns False if that was recorded before."""
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
            self._update(
                run,
                shard,
                f"SET #state = :over, #countedAt = :now, {changes} REMOVE #ended, #tokenIds, #taskTokens",
                {"over": "ENDED", "now": now(), **noted},
                "#state <> :over",
            )
        except ConditionFailed:
            return False
        return True

    def settled(self, run: str, shard: str, dollars: float) -> None:
        """Note how many dollars of a shard have been added to its run's sum."""
        self._update(run, shard, "SET #settledDollars = :dollars", {"dollars": dollars}, "attribute_exists(pk)")

    def looked_at(self, run: str, shard: str) -> None:
        """Note that a shard was looked at, so that it is not looked at again at once."""
        self._update(run, shard, "SET #countedAt = :now", {"now": now()}, "attribute_exists(pk)")

    def _existing(self, run: str, shard: str) -> ShardRow:
        row = self.get(run, shard)
        assert row is not None, "a condition on this row has failed"
        return row

    def _update(self, run: str, shard: str, expression: str, values: Mapping[str, Any], condition: str) -> ShardRow:
        return ShardRow.model_validate(self._table.update(run_pk(run), _sk(shard), expression, values, condition))


def _sums(ends: Iterable[ItemEnd]) -> dict[str, float]:
    """Return the sums of some items' ends, by the attributes of the shard's row to which they are added."""
    listed = list(ends)
    counts = {name: sum(end.outcome == name for end in listed) for name in ("succeeded", "failed", "cancelled")}
    return {
        **counts,
        "reused": sum(end.reused for end in listed),
        "gpuSeconds": round(sum(end.gpu_seconds for end in listed), 6),
        "dollars": round(sum(end.dollars for end in listed), 9),
    }


def _sk(shard: str) -> str:
    return f"shard#{shard}"


def _token_sk(shard: str, one: str) -> str:
    return f"token#{shard}#{one}"
