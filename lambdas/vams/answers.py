"""Answer VAMS for a run on one or several files, once all of them have ended.

VAMS moves results onto the asset only after a success, and nothing after a failure. So a run of which some files have
results succeeds, and its output names a document that lists the files that failed (decision 032).
"""

import json
from collections.abc import Collection
from datetime import datetime

from cosmos_batch.contract.error import MESSAGE_LIMIT, Error
from cosmos_batch.contract.error_documents import FailedFile, RunErrors
from cosmos_batch.contract.result import Result
from cosmos_batch.contract.s3 import OBJECT_MARKER, S3Location, parse_uri
from cosmos_batch.state import Group, Groups, Table
from lambdas.clients import client, vams_client
from lambdas.log import log, log_fault
from lambdas.step_functions import send_failure, send_success


def end_in_group(result: Result, table: Table, role_arn: str | None) -> None:
    """Record the end of a job of a run of VAMS, and answer VAMS if it was the last; ignore any other job.

    Two jobs that end at once may both answer. Their answers are the same, and Step Functions takes the first.
    """
    groups = Groups(table)
    group = groups.end(result.job_id, result)
    if group is not None and group.complete:
        answer_all(group, groups, role_arn)


def answer_all(group: Group, groups: Groups, role_arn: str | None) -> None:
    """Answer all tokens that wait for a run that has ended, also those that are added meanwhile."""
    unanswered: Group | None = group
    while unanswered is not None and unanswered.complete and unanswered.waiting:
        output = output_of(unanswered)
        answer(unanswered, unanswered.waiting, output, role_arn)
        unanswered = groups.note_answer(unanswered, output)


def answer(group: Group, tokens: Collection[str], output: str | None, role_arn: str | None) -> None:
    """Answer tokens with the output of a success, or with the run's error if `output` is None."""
    stepfunctions = vams_client("stepfunctions", role_arn)
    for token in tokens:
        if output is None:
            send_failure(group.id, token, error_of_run(group), stepfunctions)
        else:
            send_success(group.id, token, output, stepfunctions)
    log("answered VAMS", run=group.id, files=group.jobs, failed=len(group.failed), succeeded=output is not None)


def output_of(group: Group) -> str | None:
    """Return the output of a run that succeeds, as JSON.

    It is None, and the run fails, if no file has a result, or if the document of the failed files cannot be written.
    """
    if group.output is not None:
        return group.output
    if len(group.failed) == group.jobs:
        return None
    counts = {"files": group.jobs}
    if not group.failed:
        return json.dumps(counts)
    try:
        errors = write_errors(group)
    except Exception as error:
        log_fault("the document of errors could not be written; the run fails", error, run=group.id)
        return None
    return None if errors is None else json.dumps({**counts, "failed": len(group.failed), "errors": errors.uri})


def write_errors(group: Group) -> S3Location | None:
    """Write the document that lists the files that failed, and return its location.

    Return None for a run that started before decision 033, whose row does not say where its results go.
    """
    if group.files is None or group.since is None:
        return None
    errors = RunErrors(
        run_id=group.id,
        timestamp=f"{datetime.fromisoformat(group.since):%Y%m%d-%H%M%S}",
        files=group.jobs,
        failed=[FailedFile(file=failed.name, job_id=failed.job, error=failed.error) for failed in group.failed],
    )
    location = errors.location(parse_uri(group.files))
    client("s3").put_object(
        Bucket=location.bucket,
        Key=location.key,
        Body=errors.model_dump_json(indent=2).encode(),
        ContentType="application/json",
        Metadata={OBJECT_MARKER: group.id},
    )
    return location


def error_of_run(group: Group) -> Error:
    """Return why a run failed: a single file's error, or which of several files failed and the first one's error."""
    failed = group.failed
    first = failed[0].error
    if group.jobs == 1:
        return first
    names = ", ".join(f"{file.name} ({file.error.code})" for file in failed)
    where = "" if group.files is None or len(failed) == group.jobs else f" The others' results lie in {group.files}."
    return Error(
        code=first.code,
        message=f"{len(failed)} of {group.jobs} files failed: {names}. {first.message}"[:MESSAGE_LIMIT],
        remedy=f"{first.remedy or 'Run it on those again.'}{where}"[:MESSAGE_LIMIT],
        retryable=any(file.error.retryable for file in failed),
    )
