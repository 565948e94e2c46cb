"""Check a generation with the code of the planning Lambda, before anything is uploaded or started."""

from functools import partial

from cosmos_batch.catalogue.formats import EXTENSIONS, VIDEO_EXTENSIONS
from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.generation_request import JSON, GenerationRequest
from cosmos_batch.cli.input_checks import File
from cosmos_batch.cli.request_checks import Problems, size_of
from cosmos_batch.contract.generation.serving import Serving
from cosmos_batch.planning.generation.abilities import refuse_undistilled_engine
from cosmos_batch.planning.generation.settling import settle

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
    refuse_unsettled(request, pipeline_id, serving)


def refuse_unsettled(request: GenerationRequest, pipeline_id: str, serving: Serving) -> None:
    """Raise Failure, with the words of the planning Lambda, where a pipeline that is configured so cannot make it."""
    pipeline = pipeline_named(pipeline_id)
    assert pipeline is not None, "deployments have the pipelines of the catalogue"
    settle(request.parameters, request.prompt, pipeline, request.medium, "unsent", serving)


def refuse_objects(deployment: Deployment, request: GenerationRequest) -> None:
    """Raise WrongCall that names all files in S3 that do not exist or cannot be used."""
    parameters, problems = request.parameters, Problems()
    controls = (parameters.controls or {}).values()
    named: list[tuple[File | None, tuple[str, ...]]] = [
        (request.request_file, JSON),
        (request.input, EXTENSIONS),
        (parameters.action_path, JSON),
        *((control.path, VIDEO_EXTENSIONS) for control in controls),
    ]
    for file, extensions in named:
        if isinstance(file, str) and file.startswith("s3://"):
            problems.check(file, partial(size_of, deployment, file, extensions))
    problems.raise_all()
