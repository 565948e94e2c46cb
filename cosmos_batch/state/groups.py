"""Callbacks that wait for a run of one job or several: answered once, when the last job has ended.

What has ended is a set, not a number: an end that is noted twice counts once, so every step may be taken again.

Whoever waits may ask for the same run again, with another task token, as a state machine does that retries. It then
waits for the same jobs; where those have ended it is given their answer, or only the jobs whose failure may pass are
run again, in a further attempt of the run.
"""

import hashlib
import json
from typing import Any

from pydantic import Field

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import Result
from cosmos_batch.state.table import ConditionFailed, Row, Table, expires_at, now

# A row holds 400 KB, and hundreds of files may fail: so many characters are kept of all their errors together, but of
# each at least as many as `Error.cause` needs.
KEPT_ERRORS = 60_000
SHORTEST_ERROR = 256


class GroupFailure(Row):
    """One job of a group that ended badly."""

    job: str | None = Field(default=None, description="None in rows from before decision 033")
    name: str
    error: Error


class Group(Row):
    """One row. `ended` holds job ids, `failures` a `GroupFailure` as JSON each."""

    id: str
    jobs: int
    attempt: int = 0
    files: str | None = Field(default=None, description="S3 prefix of all results of the run")
    since: str | None = Field(default=None, description="When it was opened (ISO 8601, UTC)")
    task_token: str | None = Field(default=None, description="The one token, in rows from before decision 033")
    task_tokens: set[str] = Field(default_factory=set, description="Those that wait")
    answered_tokens: set[str] = Field(default_factory=set, description="Digests of those that were answered")
    answered_at: str | None = None
    output: str | None = Field(default=None, description="What a success is answered with")
    ended: set[str] = Field(default_factory=set)
    failures: set[str] = Field(default_factory=set)

    @property
    def complete(self) -> bool:
        """Whether every job has ended."""
        return len(self.ended) >= self.jobs

    @property
    def failed(self) -> list[GroupFailure]:
        """Those that ended badly, by name."""
        return sorted(map(GroupFailure.model_validate_json, self.failures), key=lambda one: one.name)

    @property
    def waiting(self) -> set[str]:
        """The tokens that wait for an answer."""
        return self.task_tokens | ({self.task_token} if self.task_token else set())

    @property
    def may_pass(self) -> bool:
        """Whether it was answered with a failure which may pass, of one job at least."""
        return self.answered_at is not None and self.output is None and any(one.error.retryable for one in self.failed)

    def has_answered(self, task_token: str) -> bool:
        """Whether this very token has had its answer."""
        return _digest(task_token) in self.answered_tokens


class Groups:
    """One row for each group, and one for each of its jobs."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def wait(self, group: str, task_token: str, jobs: int, files: str) -> Group:
        """Let a token wait for a group, which is opened by its first one. An answered group stays as it is.

        `files` is the S3 prefix of the run's results.
        """
        row = {
            "id": group,
            "jobs": jobs,
            "attempt": 0,
            "files": files,
            "taskTokens": {task_token},
            "since": now(),
            "expiresAt": expires_at(),
        }
        try:
            self._table.put_new(_pk(group), "group", row)
            return Group.model_validate(row)
        except ConditionFailed:
            return self._join(group, task_token)

    def _join(self, group: str, task_token: str) -> Group:
        """Let a token wait, unless the group was answered: then it is returned as it is."""
        condition = "attribute_exists(#id) AND attribute_not_exists(#answeredAt)"
        while True:
            try:
                return self._update(group, "ADD #taskTokens :tokens", {"tokens": {task_token}}, condition)
            except ConditionFailed:
                found = self.get(group)
                assert found is not None, f"the row of {group} expires a month after it was made"
                if found.answered_at is not None:  # else it was reopened between the two calls
                    return found

    def reopen(self, group: Group, task_token: str) -> Group:
        """Begin the next attempt of a group that was answered, for its jobs whose failure may pass.

        Where somebody else began it first, the token waits for that.
        """
        again = {
            text: failed
            for text in group.failures
            if (failed := GroupFailure.model_validate_json(text)).error.retryable
        }
        values = {
            "answeredAt": group.answered_at,
            "attempt": group.attempt + 1,
            "tokens": {task_token},
            "ended": {failed.job for failed in again.values()},
            "failures": set(again),
        }
        expression = (
            "SET #attempt = :attempt, #taskTokens = :tokens "
            "REMOVE #answeredAt "
            "DELETE #ended :ended, #failures :failures"
        )
        try:
            return self._update(group.id, expression, values, "#answeredAt = :answeredAt")
        except ConditionFailed:
            return self._join(group.id, task_token)

    def join(self, job_id: str, group: Group, name: str) -> None:
        """Make a job, before it starts, one of a group. `name` is what a person knows its file by."""
        member = {
            "group": group.id,
            "attempt": group.attempt,
            "jobs": group.jobs,
            "name": name,
            "expiresAt": expires_at(),
        }
        try:
            self._table.put_new(f"job#{job_id}", "group", member)
        except ConditionFailed:
            return

    def end(self, job_id: str, result: Result) -> Group | None:
        """Note the end of a job, the first one that is told; the group as it is then, or None if it is in none.

        The result of a group's only job is what its success is answered with.
        """
        member = self._table.get(f"job#{job_id}", "group")
        if member is None:
            return None
        jobs = member.get("jobs", KEPT_ERRORS)
        values: dict[str, Any] = {"job": job_id, "ended": {job_id}, "attempt": member.get("attempt", 0)}
        expression = "ADD #ended :ended"
        if result.error is not None:
            kept = result.error.cause(max(SHORTEST_ERROR, KEPT_ERRORS // jobs))
            failed = {"job": job_id, "name": member["name"], "error": json.loads(kept)}
            values["failures"] = {json.dumps(failed)}
            expression += ", #failures :failures"
        elif jobs == 1:
            values["output"] = result.model_dump_json(exclude_none=True)
            expression = f"SET #output = :output {expression}"
        condition = (
            "attribute_exists(#id) AND NOT contains(#ended, :job) "
            "AND (attribute_not_exists(#attempt) OR #attempt = :attempt)"
        )
        try:
            return self._update(member["group"], expression, values, condition)
        except ConditionFailed:
            return self.get(member["group"])

    def get(self, group: str) -> Group | None:
        """The group as it is now."""
        row = self._table.get(_pk(group), "group")
        return None if row is None else Group.model_validate(row)

    def note_answer(self, group: Group, output: str | None) -> Group | None:
        """Forget the tokens that were answered, with `output` or as failed; None, unless others have come to wait.

        Those are in the group that is returned, and must be answered too.
        """
        values: dict[str, Any] = {"now": now(), "digests": {_digest(token) for token in group.waiting}}
        expression = "SET #answeredAt = :now"
        if output is not None:
            values["output"] = output
            expression += ", #output = :output"
        condition = "attribute_not_exists(#taskTokens)"
        if group.task_tokens:
            values["tokens"] = group.task_tokens
            condition = "#taskTokens = :tokens"
        expression += " REMOVE #taskToken, #taskTokens ADD #answeredTokens :digests"
        try:
            self._update(group.id, expression, values, condition)
        except ConditionFailed:
            return self.get(group.id)
        return None

    def _update(self, group: str, expression: str, values: dict[str, Any], condition: str) -> Group:
        return Group.model_validate(self._table.update(_pk(group), "group", expression, values, condition))


def _pk(group: str) -> str:
    return f"group#{group}"


def _digest(task_token: str) -> str:
    return hashlib.sha256(task_token.encode()).hexdigest()
