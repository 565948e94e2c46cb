"""The run of one pipeline on one file, and the run that takes its place when a sidecar comes late."""

from cosmos_batch.contract.environment import UploadEnvironment
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.s3 import S3Location, execution_name
from cosmos_batch.state import Jobs
from lambdas.clients import client, state_table
from lambdas.intake.choosing import surface_of
from lambdas.intake.metadata import FileMetadata, earlier_sidecars
from lambdas.log import log
from lambdas.s3_objects import StoredObject
from lambdas.step_functions import execution_arn, input_of, start


def start_run(environment: UploadEnvironment, pipeline: str, file: StoredObject, metadata: FileMetadata) -> None:
    """Start the run, unless it was started before.

    If it was, with another sidecar or none, the prompt of this one is not in it: a run whose name has the sidecar's
    version takes its place. Every event of the file and of its sidecars comes through here and reads the sidecar as
    it is now, so the order of events does not matter, and each of them may come again:

    - before the first start: the run has this sidecar, and the late event finds it there;
    - stopped between the two starts: the event comes back to a run with another sidecar, stops it again (which
      changes nothing) and starts the second;
    - an attempt opens between the look at the row and the stop: the run is closed as cancelled, which its attempt
      cannot win against; the work is lost, the answer is not;
    - it was committed before: then its document stands, and the second one beside it.

    A second late sidecar takes the place of the first late one in the same way: the run of each earlier version is
    known by its name. Two that are written within the same moment may both be answered, and so may all of a bucket
    that keeps no versions: a run too many, none too few.
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
    if start(environment.state_machine_arn, name, request, environment.state_bucket) or metadata.sidecar is None:
        return
    if input_of(execution_arn(environment.state_machine_arn, name)).get("sidecar") == metadata.sidecar:
        return
    late = [execution_name(pipeline, *identity, version) for version in earlier_sidecars(file)]
    for superseded in (name, *late):
        _stop_unless_begun(environment, superseded)
    latest = execution_name(pipeline, *identity, metadata.sidecar)
    start(environment.state_machine_arn, latest, request, environment.state_bucket)


def start_request_file(environment: UploadEnvironment, pipeline: str, file: StoredObject) -> None:
    """Start the run of an uploaded `*.cosmos.json`, which `plan` reads: what is wrong in it is told there."""
    location = file.location
    request = Request(
        pipeline=pipeline,
        request_file=location.uri,
        request_file_version=file.version_id,
        caller=caller_of(location),
        uploaded=True,
    )
    name = execution_name(pipeline, location.bucket, location.key, file.identity)
    start(environment.state_machine_arn, name, request, environment.state_bucket)


def caller_of(location: S3Location) -> str:
    """Who uploaded a file, as far as its place says."""
    return f"{location.bucket}/{location.key.partition('/')[0] if '/' in location.key else ''}"


def _stop_unless_begun(environment: UploadEnvironment, name: str) -> None:
    """Stop a run, if there is one, that no engine has begun; one that has is let finish: its work is paid for."""
    row = Jobs(state_table(environment.state_table)).get(name)
    if row is not None and (row.state != "PLANNED" or row.attempts > 0):
        return
    stepfunctions = client("stepfunctions")
    try:
        stepfunctions.stop_execution(
            executionArn=execution_arn(environment.state_machine_arn, name),
            error="Cancelled",
            cause="A sidecar with another prompt came before the run began; another run has taken its place.",
        )
    except stepfunctions.exceptions.ExecutionDoesNotExist:  # not every version of a sidecar is read in its time
        return
    log("superseded by a late sidecar", jobId=name)
