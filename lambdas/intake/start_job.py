"""Start a job on an uploaded file, and replace a job that was started before its file's sidecar was written."""

from cosmos_batch.contract.environment import UploadEnvironment
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.s3 import S3Location
from cosmos_batch.planning.executions import execution_arn, execution_name
from cosmos_batch.state import Jobs
from lambdas.clients import client, state_table
from lambdas.intake.metadata import FileMetadata, earlier_sidecars
from lambdas.intake.pipeline_choice import surface_of
from lambdas.log import log
from lambdas.s3_objects import StoredObject
from lambdas.step_functions import input_of_execution, start_execution


def start_job(environment: UploadEnvironment, pipeline: str, file: StoredObject, metadata: FileMetadata) -> None:
    """Start the execution of a pipeline's job on a file, unless it was started before.

    A job that was started before with another sidecar, or with none, lacks the prompt of the present one. It is stopped
    and replaced by a job whose execution's name contains the sidecar's version. Every event of the file and of its
    sidecars calls this function, which reads the sidecar as it is now; so the events may come in any order, and each
    more than once:

    - An event before the first start: the job has this sidecar, and the event of the sidecar finds it there.
    - A crash after the old job was stopped: the event is received again, finds a job with another sidecar, stops it
      again (which changes nothing) and starts the new one.
    - A worker begins the old job between the check and the stop: the job is closed as cancelled, so the worker cannot
      commit it. Its work is lost, and the new job has the answer.
    - The old job was committed before: its document stays, and the new job writes a second one beside it.

    A second late sidecar replaces the job of the first late one in the same way, for the name of that job's
    execution follows from the sidecar's version. Two sidecars that are written at the same moment may both get an
    answer, and so may all of a bucket without versioning: there may be a job too many, but never one too few.
    """
    location = file.location
    identity = (location.bucket, location.key, file.identity)
    name = execution_name(pipeline, *identity)
    is_generator = surface_of(pipeline) == "generator"
    request = Request(
        pipeline=pipeline,
        input=location.uri,
        prompt=metadata.generation_prompt if is_generator else metadata.prompt,
        metadata=metadata.generation if is_generator else metadata.settings,
        input_version_id=file.version_id,
        sidecar=metadata.sidecar,
        caller=caller_of(location),
        uploaded=True,
        faults=metadata.faults,
    )
    started = start_execution(environment.state_machine_arn, name, request, environment.state_bucket)
    if started or metadata.sidecar is None:
        return
    if input_of_execution(execution_arn(environment.state_machine_arn, name)).get("sidecar") == metadata.sidecar:
        return
    late = [execution_name(pipeline, *identity, version) for version in earlier_sidecars(file)]
    for replaced in (name, *late):
        _stop_unless_begun(environment, replaced)
    latest = execution_name(pipeline, *identity, metadata.sidecar)
    start_execution(environment.state_machine_arn, latest, request, environment.state_bucket)


def start_request_file(environment: UploadEnvironment, pipeline: str, file: StoredObject) -> None:
    """Start the job of an uploaded `*.cosmos.json`. `plan` reads the file, and refuses what is wrong in it."""
    location = file.location
    request = Request(
        pipeline=pipeline,
        request_file=location.uri,
        request_file_version=file.version_id,
        caller=caller_of(location),
        uploaded=True,
    )
    name = execution_name(pipeline, location.bucket, location.key, file.identity)
    start_execution(environment.state_machine_arn, name, request, environment.state_bucket)


def caller_of(location: S3Location) -> str:
    """Return the caller of an uploaded file: its bucket and the first folder of its key."""
    return f"{location.bucket}/{location.key.partition('/')[0] if '/' in location.key else ''}"


def _stop_unless_begun(environment: UploadEnvironment, name: str) -> None:
    """Stop a job, if it exists, that no worker has begun. One that has begun may finish, for its GPU time is paid."""
    row = Jobs(state_table(environment.state_table)).get(name)
    if row is not None and (row.state != "PLANNED" or row.attempts > 0):
        return
    stepfunctions = client("stepfunctions")
    try:
        stepfunctions.stop_execution(
            executionArn=execution_arn(environment.state_machine_arn, name),
            error="Cancelled",
            cause="A sidecar with another prompt arrived before the job began; another job replaces it.",
        )
    except stepfunctions.exceptions.ExecutionDoesNotExist:  # an event may come too late to read this sidecar's version
        return
    log("superseded by a late sidecar", jobId=name)
