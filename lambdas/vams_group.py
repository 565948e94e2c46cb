"""The callback of a VAMS workflow that runs on several files."""

import json

from cosmos_batch.contract.error import Error
from cosmos_batch.state import Group, Groups, Table
from lambdas.log import log
from lambdas.tokens import fail, succeed
from lambdas.vams_account import vams_client


def end_in_group(job_id: str, error: Error | None, table: Table, role_arn: str | None) -> None:
    """Note the end of one file's job, if it is one of several, and answer VAMS if it was the last.

    Two that end at once may both answer: the answer is the same, and Step Functions takes one.
    """
    groups = Groups(table)
    group = groups.end(job_id, error)
    if group is None or not group.complete or group.task_token is None:
        return
    states = vams_client("stepfunctions", role_arn)
    if group.failed:
        fail(group.id, group.task_token, why(group), states)
    else:
        succeed(group.id, group.task_token, json.dumps({"files": group.jobs}), states)
    groups.answered(group.id)
    log("answered for all files", group=group.id, files=group.jobs, failed=len(group.failed))


def why(group: Group) -> Error:
    """Which files failed, and why the first of them did."""
    failed = group.failed
    names = ", ".join(f"{one.name} ({one.error.code})" for one in failed)
    return Error(
        code=failed[0].error.code,
        message=f"{len(failed)} of {group.jobs} files failed: {names}. {failed[0].error.message}"[:2000],
        remedy="Run it on those again; the others have their results.",
        retryable=all(one.error.retryable for one in failed),
    )
