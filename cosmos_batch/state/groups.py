"""Groups: a job, or a run of many items, for which callers wait with task tokens until it has ended (decision 034).

A state machine that retries starts the same work again with another task token (decision 033). The new token waits for
the same job. If that has ended already, the token gets its result; or, if it failed with an error that may pass, it is
done again, in a further attempt of the group.

An earlier release had a group of several jobs for the files of one call (decision 031). Its rows are answered as they
were: the jobs that have ended are a set, so that an end that is noted twice counts once.
"""

import hashlib
import json
from typing import Any

from pydantic import Field

from cosmos_batch.contract.error import Error
from cosmos_batch.state.table import ConditionFailed, Table, TableRow, expires_at, now

# A DynamoDB item holds 400 KB, and hundreds of files may fail. So KEPT_ERROR_CHARACTERS limits all their errors
# together, and SHORTEST_ERROR, in characters too, is the least that each may have: what `Error.cause` needs.
KEPT_ERROR_CHARACTERS = 60_000
SHORTEST_ERROR = 256


class GroupFailure(TableRow):
    """A job of a group that failed, with its error."""

    job: str | None = Field(default=None, description="None in rows from before decision 033")
    name: str
    error: Error


class Group(TableRow):
    """A group's row. `ended` holds job ids, `failures` one `GroupFailure` as JSON for each failed job."""

    id: str
    jobs: int = Field(description="More than one in rows of an earlier release, with a job for each file of a call")
    attempt: int = 0
    files: str | None = Field(default=None, description="S3 prefix of all results of the run")
    since: str | None = Field(default=None, description="When it was opened (ISO 8601, UTC)")
    task_token: str | None = Field(default=None, description="The only token, in rows from before decision 033")
    task_tokens: set[str] = Field(default_factory=set, description="Task tokens that wait")
    answered_tokens: set[str] = Field(default_factory=set, description="Digests of answered tokens")
    answered_at: str | None = None
    output: str | None = Field(default=None, description="The output that a success is answered with")
    ended: set[str] = Field(default_factory=set)
    failures: set[str] = Field(default_factory=set)

    @property
    def complete(self) -> bool:
        """Return whether every job has ended."""
        return len(self.ended) >= self.jobs

    @property
    def failed(self) -> list[GroupFailure]:
        """Return the failed jobs, sorted by name."""
        return sorted(map(GroupFailure.model_validate_json, self.failures), key=lambda failure: failure.name)

    @property
    def waiting(self) -> set[str]:
        """Return the task tokens that wait for an answer."""
        return self.task_tokens | ({self.task_token} if self.task_token else set())

    @property
    def may_pass(self) -> bool:
        """Return whether it was answered as failed, and at least one of its jobs has a retryable error."""
        return self.answered_at is not None and self.output is None and any(job.error.retryable for job in self.failed)

    def has_answered(self, task_token: str) -> bool:
        """Return whether this token was answered."""
        return _digest(task_token) in self.answered_tokens


class Groups:
    """The rows of groups, and of the jobs that belong to one."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def wait(self, group: str, task_token: str, files: str) -> Group:
        """Add a waiting token to a group, and create the group with its first token. Returns the group.

        An answered group is returned unchanged. `files` is the S3 prefix of the run's results.
        """
        row = {
            "id": group,
            "jobs": 1,
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
        """Add a waiting token to an existing group, unless it was answered. Returns the group."""
        condition = "attribute_exists(#id) AND attribute_not_exists(#answeredAt)"
        while True:
            try:
                return self._update(group, "ADD #taskTokens :tokens", {"tokens": {task_token}}, condition)
            except ConditionFailed:
                answered = self.get(group)
                assert answered is not None, f"the row of {group} expires a month after it was made"
                if answered.answered_at is not None:  # else it was reopened between the two calls
                    return answered

    def reopen(self, group: Group, task_token: str) -> Group:
        """Begin the next attempt of an answered group, for its jobs with a retryable error. Returns the group.

        If another caller has begun it first, the token waits for that attempt.
        """
        retried = {
            text: failed
            for text in group.failures
            if (failed := GroupFailure.model_validate_json(text)).error.retryable
        }
        values = {
            "answeredAt": group.answered_at,
            "attempt": group.attempt + 1,
            "tokens": {task_token},
            "ended": {failed.job for failed in retried.values()},
            "failures": set(retried),
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
        """Make a job, or a run, the work of a group before it starts. `name` is what people know it by."""
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

    def of(self, job_id: str) -> Group | None:
        """Return the group of a job or a run; None if it has none, or if a later attempt has taken its place."""
        member = self._table.get(f"job#{job_id}", "group")
        group = None if member is None else self.get(member["group"])
        return None if group is None or member is None or member.get("attempt", 0) != group.attempt else group

    def end(self, job_id: str, end: Error | str) -> Group | None:
        """Note the end of a job or a run, if none was noted before. Returns its group, or None if it has none.

        `end` is its error or, if it succeeded, the output that callers are answered with.
        """
        member = self._table.get(f"job#{job_id}", "group")
        if member is None:
            return None
        jobs = member.get("jobs")
        values: dict[str, Any] = {"job": job_id, "ended": {job_id}, "attempt": member.get("attempt", 0)}
        expression = "ADD #ended :ended"
        if isinstance(end, Error):
            cause = end.cause(_error_limit(jobs))
            failed = {"job": job_id, "name": member["name"], "error": json.loads(cause)}
            values["failures"] = {json.dumps(failed)}
            expression += ", #failures :failures"
        elif jobs == 1:
            values["output"] = end
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
        """Return the group, or None if it does not exist."""
        row = self._table.get(_pk(group), "group")
        return None if row is None else Group.model_validate(row)

    def note_answer(self, group: Group, output: str | None) -> Group | None:
        """Note that the group's waiting tokens were answered, with `output` or as failed, and delete them.

        Returns None, or the group if other tokens have come to wait meanwhile: these must be answered too.
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


def _error_limit(jobs: int | None) -> int:
    """Return how many characters are kept of the error of one of a group's `jobs`.

    The number of jobs is None in rows from before decision 033: there may be as many as a call had files.
    """
    return SHORTEST_ERROR if jobs is None else max(SHORTEST_ERROR, KEPT_ERROR_CHARACTERS // jobs)
