"""Callbacks that wait for several jobs: answered once, when the last of them has ended.

What has ended is a set, not a number: an end that is noted twice counts once, so every step may be taken again.
"""

import json
from typing import Any

from pydantic import Field

from cosmos_batch.contract.error import Error
from cosmos_batch.state.table import ConditionFailed, Row, Table, expires_at, now

KEPT_MESSAGE = 200  # characters of an error: a row holds 400 KB, and hundreds of files may fail


class Failed(Row):
    """One job of a group that ended badly."""

    name: str
    error: Error


class Group(Row):
    """One row. `ended` holds job ids, `failures` a `Failed` as JSON each."""

    id: str
    jobs: int
    task_token: str | None = None
    ended: set[str] = Field(default_factory=set)
    failures: set[str] = Field(default_factory=set)

    @property
    def complete(self) -> bool:
        """Whether every job has ended."""
        return len(self.ended) >= self.jobs

    @property
    def failed(self) -> list[Failed]:
        """Those that ended badly, by name."""
        return sorted(map(Failed.model_validate_json, self.failures), key=lambda one: one.name)


class Groups:
    """One row for each group, and one for each of its jobs."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def open(self, group: str, task_token: str, jobs: int) -> None:
        """Store a token before the first job starts; the same request again changes nothing."""
        self._put(
            f"group#{group}",
            {"id": group, "taskToken": task_token, "jobs": jobs, "since": now(), "expiresAt": expires_at()},
        )

    def join(self, job_id: str, group: str, name: str) -> None:
        """Make a job, before it starts, one of a group. `name` is what a person knows its file by."""
        self._put(f"job#{job_id}", {"group": group, "name": name, "expiresAt": expires_at()})

    def end(self, job_id: str, error: Error | None) -> Group | None:
        """Note the end of a job, the first one that is told; the group as it is then, or None if it is in none."""
        member = self._table.get(f"job#{job_id}", "group")
        if member is None:
            return None
        values: dict[str, Any] = {"job": job_id, "ended": {job_id}}
        expression = "ADD #ended :ended"
        if error is not None:
            kept = error.model_copy(update={"message": error.message[:KEPT_MESSAGE], "remedy": ""})
            values["failures"] = {json.dumps({"name": member["name"], "error": kept.model_dump()})}
            expression += ", #failures :failures"
        pk = f"group#{member['group']}"
        condition = "attribute_exists(#id) AND NOT contains(#ended, :job)"
        try:
            return Group.model_validate(self._table.update(pk, "group", expression, values, condition))
        except ConditionFailed:
            row = self._table.get(pk, "group")
            return None if row is None else Group.model_validate(row)

    def answered(self, group: str) -> None:
        """Nobody waits any more; the token is forgotten."""
        self._table.update(f"group#{group}", "group", "SET #answeredAt = :now REMOVE #taskToken", {"now": now()})

    def _put(self, pk: str, item: dict[str, Any]) -> None:
        try:
            self._table.put_new(pk, "group", item)
        except ConditionFailed:
            return
