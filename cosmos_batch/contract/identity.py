"""Which model answers: what a job was planned for and what a worker was started for have to be the same."""

import hashlib
import json

from pydantic import Field

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.generation.serving import Serving

_DIGITS = 16  # of a digest; an accident of 64 bits never happens among the configurations of one pipeline
# These settings of an endpoint say how it is asked, not what answers.
_HOW_TO_ASK = {"api_key_secret_arn", "api_key_secret_key_arn", "concurrency", "timeout_seconds"}


class Identity(Model):
    """The model of a pipeline, at one revision, in one engine, with one configuration."""

    model: str = Field(description="Hugging Face id, path of a checkpoint folder, or what an endpoint is asked for")
    revision: str | None = Field(
        default=None,
        description="Commit of the model; None as long as none is recorded for the pipeline, and always for a folder "
        "or an endpoint, of which only the worker or the server knows what they hold",
    )
    engine: str = Field(description="As it is configured; 'auto' is resolved by each worker")
    configuration: str = Field(description="Digest of every setting of the pipeline that its answers depend on")


def configuration_digest(
    model: str,
    engine: str,
    context: int | None,
    serving: Serving | None,
    endpoint: Endpoint | None,
    upsampler: Endpoint | None,
) -> str:
    """A digest that changes when one of these settings does.

    Settings at their default are left out: a later version may add a setting without changing the digest of those who
    do not use it.
    """
    settings = {
        "model": model,
        "engine": engine,
        "context": context,
        "serving": serving and serving.model_dump(mode="json", exclude_defaults=True),
        "endpoint": endpoint and _asked(endpoint),
        "upsampler": upsampler and _asked(upsampler),
    }
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def _asked(endpoint: Endpoint) -> dict[str, object]:
    return endpoint.model_dump(mode="json", exclude=_HOW_TO_ASK, exclude_defaults=True)
