"""The answer to VAMS, whose workflow may run on several files: one for all of them, when the last has ended.

VAMS moves results onto the asset after a success alone, and nothing after a failure. So a run of which some files have
results succeeds, and brings a document that names the others (decision 032).
"""

import json
from collections.abc import Collection
from datetime import datetime

from cosmos_batch.contract.error import MESSAGE_LIMIT, Error
from cosmos_batch.contract.result import Result
from cosmos_batch.contract.run_errors import FailedFile, RunErrors
from cosmos_batch.contract.s3 import OBJECT_MARKER, S3Location, parse_uri
from cosmos_batch.state import Group, Groups, Table
from lambdas.clients import client
from lambdas.log import log, log_fault
from lambdas.task_tokens import fail, succeed
from lambdas.vams_client import vams_client


def end_in_group(result: Result, table: Table, role_arn: str | None) -> None:
    """Note the end of a job, if it is one of a run of VAMS, and answer VAMS if it was the last.

    Two that end at once may both answer: the answer is the same, and Step Functions takes one.
    """
    groups = Groups(table)
    group = groups.end(result.job_id, result)
    if group is not None and group.complete:
        answer_all(group, groups, role_arn)


def answer_all(group: Group, groups: Groups, role_arn: str | None) -> None:
    """Answer everybody who waits for a run that has ended, also those who come meanwhile."""
    unanswered: Group | None = group
    while unanswered is not None and unanswered.complete and unanswered.waiting:
        output = output_of(unanswered)
        answer(unanswered, unanswered.waiting, output, role_arn)
        unanswered = groups.note_answer(unanswered, output)


def answer(group: Group, tokens: Collection[str], output: str | None, role_arn: str | None) -> None:
    """Answer some tokens with the output of a success, or with the failure."""
    states = vams_client("stepfunctions", role_arn)
    for token in tokens:
        if output is None:
            fail(group.id, token, why(group), states)
        else:
            succeed(group.id, token, output, states)
    log("answered VAMS", run=group.id, files=group.jobs, failed=len(group.failed), succeeded=output is not None)


def output_of(group: Group) -> str | None:
    """What a success is answered with; None where no file has a result, or nobody could be told of the others."""
    if group.output is not None:
        return group.output
    if len(group.failed) == group.jobs:
        return None
    counts = {"files": group.jobs}
    if not group.failed:
        return json.dumps(counts)
    try:
        errors = keep_errors(group)
    except Exception as error:
        log_fault("the document of errors could not be written; the run fails", error, run=group.id)
        return None
    return None if errors is None else json.dumps({**counts, "failed": len(group.failed), "errors": errors.uri})


def keep_errors(group: Group) -> S3Location | None:
    """Write the document that names the files that failed, and return its place.

    None for a run from before decision 033, whose prefix nobody kept.
    """
    if group.files is None or group.since is None:
        return None
    errors = RunErrors(
        run_id=group.id,
        timestamp=f"{datetime.fromisoformat(group.since):%Y%m%d-%H%M%S}",
        files=group.jobs,
        failed=[FailedFile(file=one.name, job_id=one.job, error=one.error) for one in group.failed],
    )
    place = errors.location(parse_uri(group.files))
    client("s3").put_object(
        Bucket=place.bucket,
        Key=place.key,
        Body=errors.model_dump_json(indent=2).encode(),
        ContentType="application/json",
        Metadata={OBJECT_MARKER: group.id},
    )
    return place


def why(group: Group) -> Error:
    """Why a run failed: the only file's error, or which files failed, and why the first of them did."""
    failed = group.failed
    first = failed[0].error
    if group.jobs == 1:
        return first
    names = ", ".join(f"{one.name} ({one.error.code})" for one in failed)
    where = "" if group.files is None or len(failed) == group.jobs else f" The others' results lie in {group.files}."
    return Error(
        code=first.code,
        message=f"{len(failed)} of {group.jobs} files failed: {names}. {first.message}"[:MESSAGE_LIMIT],
        remedy=f"{first.remedy or 'Run it on those again.'}{where}"[:MESSAGE_LIMIT],
        retryable=any(one.error.retryable for one in failed),
    )
