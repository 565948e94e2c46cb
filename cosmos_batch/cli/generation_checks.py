"""Check a generation with the code of the planning Lambda, before anything is uploaded or started."""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cosmos_batch.catalogue.formats import EXTENSIONS, VIDEO_EXTENSIONS
from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.generation_request import JSON, GenerationRequest
from cosmos_batch.cli.own_cloud_checks import refuse_object
from cosmos_batch.cli.request_checks import Problems, size_of
from cosmos_batch.contract.generation.generation import Generation, Transfer
from cosmos_batch.contract.generation.serving import Serving
from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.planning.generation.abilities import refuse_undistilled_engine
from cosmos_batch.planning.generation.settling import settle
from cosmos_batch.planning.generation.transfer import follow_controls

COPY_LIMIT = 64 << 20  # bytes of a control video in S3 that is copied for its check; a larger one is left to the worker

# For a deployment that does not say how its pipelines are configured: what every engine refuses is refused.
_UNKNOWN = Serving(engine="unknown:Engine", guardrails=True, max_resolution="720p", upsamples=True, plans={})


def refuse_unplannable(deployment: Deployment, request: GenerationRequest, pipeline_id: str) -> None:
    """Raise Failure, with the words of the planning Lambda, where a deployed pipeline cannot make it.

    A request file in S3 is read by that Lambda alone.
    """
    if request.request_file is not None:
        return
    deployed = deployment.deployed_pipeline(pipeline_id)
    serving = _UNKNOWN if deployed is None or deployed.queue.serving is None else deployed.queue.serving
    if deployed is not None:
        refuse_undistilled_engine(deployed.queue.identity.model, serving)
    refuse_unsettled(request, pipeline_id, serving, deployment.clients("s3"))


def refuse_unsettled(request: GenerationRequest, pipeline_id: str, serving: Serving, s3: Any = None) -> None:
    """Raise Failure, with the words of the planning Lambda, where a pipeline that is configured so cannot make it.

    `s3` reads the request's files in S3; a request without any needs none.
    """
    pipeline = pipeline_named(pipeline_id)
    assert pipeline is not None, "deployments have the pipelines of the catalogue"
    generation = settle(request.parameters, request.prompt, pipeline, request.medium, "unsent", serving)
    if generation.transfer is not None:
        _refuse_control_videos(generation, generation.transfer, request, s3)


def _refuse_control_videos(generation: Generation, transfer: Transfer, request: GenerationRequest, s3: Any) -> None:
    """Raise the Failure that the worker would raise for control videos that are too short or differ in length.

    A control without a video of its own is computed from the file to start from. Those in S3 that are larger than
    `COPY_LIMIT`, or that this person may not read, are left to the worker; and those of an earlier generation that is
    repeated, which were long enough.
    """
    from cosmos_batch.media import probe_control

    names = {hint: control.path or str(request.input) for hint, control in transfer.controls.items()}
    with tempfile.TemporaryDirectory() as folder:
        paths = {
            name: _copied(s3, name, folder) if name.startswith("s3://") else Path(name).expanduser()
            for name in dict.fromkeys(names.values())
            if request.origin is None or request.origin.version_of(name) is None
        }
        here = {hint: path for hint, name in names.items() if (path := paths.get(name)) is not None}
        timelines = {hint: probe_control(hint, path).timeline for hint, path in here.items()}
    if timelines:
        frames = {hint: len(timeline.times) for hint, timeline in timelines.items()}
        follow_controls(generation, frames, next(iter(timelines.values())).fps)


def _copied(s3: Any, uri: str, folder: str) -> Path | None:
    """Return a copy of a file in S3; None if it is larger than `COPY_LIMIT`, or if this person may not read it."""
    from botocore.exceptions import BotoCoreError, ClientError

    place = parse_uri(uri)
    try:
        answer = s3.get_object(Bucket=place.bucket, Key=place.key)
        if answer["ContentLength"] > COPY_LIMIT:
            return None
        content = answer["Body"].read()
    except (ClientError, BotoCoreError):
        return None  # the deployment's roles may read files that this person may not read
    with tempfile.NamedTemporaryFile(dir=folder, suffix=Path(place.key).suffix, delete=False) as file:
        file.write(content)
    return Path(file.name)


def refuse_objects(deployment: Deployment, request: GenerationRequest) -> None:
    """Raise WrongCall that names all files in S3 that do not exist or cannot be used."""
    problems = Problems()
    for uri, extensions in _objects(request):
        problems.check(uri, partial(size_of, deployment, uri, extensions))
    problems.raise_all()


def refuse_objects_in_own_cloud(request: GenerationRequest) -> None:
    """Raise WrongCall that names all files in S3: a local cloud that the command starts itself has none."""
    problems = Problems()
    for uri, _ in _objects(request):
        problems.check(uri, partial(refuse_object, uri, "cosmos-batch generate --submit"))
    problems.raise_all()


def _objects(request: GenerationRequest) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the files in S3 that a request names, with the extensions that each may have."""
    parameters = request.parameters
    named = [
        (request.request_file, JSON),
        (request.input, EXTENSIONS),
        (parameters.action_path, JSON),
        *((control.path, VIDEO_EXTENSIONS) for control in (parameters.controls or {}).values()),
    ]
    for file, extensions in named:
        if isinstance(file, str) and file.startswith("s3://"):
            yield file, extensions
