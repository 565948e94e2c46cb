"""Answer the workflows of VAMS that wait for a job or a run, once it has ended.

VAMS moves results onto the asset only after a success, and nothing after a failure. So a run of which some files have
results succeeds, and its output names a document that lists the files that failed (decision 032).
"""

from collections.abc import Collection

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.error_documents import FailedFile
from cosmos_batch.state import Group, Groups, Table
from lambdas.clients import vams_client
from lambdas.log import log
from lambdas.step_functions import send_failure, send_success
from lambdas.vams.failed_files import end_of_files, error_of_files


def end_in_group(job_id: str, end: Error | str, table: Table, role_arn: str | None) -> None:
    """Record the end of a job or a run that VAMS waits for, and answer VAMS; ignore any other.

    `end` is its error, or the output that VAMS is answered with. Two calls at once may both answer. Their answers are
    the same, and Step Functions takes the first.
    """
    groups = Groups(table)
    group = groups.end(job_id, end)
    if group is not None and group.complete:
        answer_all(group, groups, role_arn)


def answer_all(group: Group, groups: Groups, role_arn: str | None) -> None:
    """Answer all tokens that wait for a job or a run that has ended, also those that are added meanwhile."""
    unanswered: Group | None = group
    while unanswered is not None and unanswered.complete and unanswered.waiting:
        output = output_of(unanswered)
        answer(unanswered, unanswered.waiting, output, role_arn)
        unanswered = groups.note_answer(unanswered, output)


def answer(group: Group, tokens: Collection[str], output: str | None, role_arn: str | None) -> None:
    """Answer tokens with the output of a success, or with the group's error if `output` is None."""
    stepfunctions = vams_client("stepfunctions", role_arn)
    for token in tokens:
        if output is None:
            send_failure(group.id, token, error_of(group), stepfunctions)
        else:
            send_success(group.id, token, output, stepfunctions)
    log("answered VAMS", run=group.id, succeeded=output is not None)


def output_of(group: Group) -> str | None:
    """Return the output of a group that succeeds, as JSON; None if it fails.

    Only a group of an earlier release, with a job for each file, has no output in its row although it may succeed.
    """
    if group.output is not None or group.jobs == 1:
        return group.output
    end = end_of_files(group.id, group.since, group.files, group.jobs, _failed_files(group))
    return end if isinstance(end, str) else None


def error_of(group: Group) -> Error:
    """Return why a group failed: the error of its job or run or, in one of an earlier release, which files failed."""
    return group.failed[0].error if group.jobs == 1 else error_of_files(_failed_files(group), group.jobs, group.files)


def _failed_files(group: Group) -> list[FailedFile]:
    return [FailedFile(file=failed.name, job_id=failed.job, error=failed.error) for failed in group.failed]
