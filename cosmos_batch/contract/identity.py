"""The identity of a deployment: a worker takes only jobs that were planned for its model and configuration."""

import hashlib
import json
from collections.abc import Sequence

from pydantic import Field

from cosmos_batch.catalogue.generation import LossyMode
from cosmos_batch.contract.base import Model
from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.generation.serving import Serving

_DIGITS = 16  # hexadecimal digits: 64 bits, which do not collide among the configurations of one pipeline
# Settings of an endpoint that do not change its answers.
_WITHOUT_EFFECT_ON_ANSWERS = {"api_key_secret_arn", "api_key_secret_key_arn", "concurrency", "timeout_seconds"}


class Identity(Model):
    """The model of a pipeline, at one revision, in one engine, with one configuration."""

    model: str = Field(description="Hugging Face id, path of a checkpoint folder, or an endpoint's model or URL")
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
    lossy: Sequence[LossyMode],
) -> str:
    """Return a digest that changes when one of these settings does. `lossy` is a reasoner's: `serving` has a
    generator's.

    Settings at their default are left out: a later version may add a setting without changing the digest of those who
    do not use it.
    """
    settings: dict[str, object] = {
        "model": model,
        "engine": engine,
        "context": context,
        "serving": serving and serving.model_dump(mode="json", exclude_defaults=True),
        "endpoint": endpoint and _settings_of(endpoint),
        "upsampler": upsampler and _settings_of(upsampler),
    }
    if lossy:
        settings["lossy"] = sorted(lossy)
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def _settings_of(endpoint: Endpoint) -> dict[str, object]:
    return endpoint.model_dump(mode="json", exclude=_WITHOUT_EFFECT_ON_ANSWERS, exclude_defaults=True)
