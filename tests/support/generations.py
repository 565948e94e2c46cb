"""What the tests of generations have in common."""

import json
from typing import Any

import pytest

from cosmos_batch.catalogue.formats import Medium
from cosmos_batch.catalogue.generation import Resolution
from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.serving import ParallelPlans, Serving
from cosmos_batch.planning.generation.aliases import read_generation_parameters
from cosmos_batch.planning.generation.settling import settle

AV = {"mode": "forward_dynamics", "domain_name": "av", "action": [[0.0] * 9] * 60}
EDGE = {"mode": "transfer", "controls": {"edge": {"path": "s3://my-bucket/edge.mp4"}}}


def settled(
    said: dict[str, Any] | None = None,
    medium: Medium | None = None,
    prompt: str | dict[str, Any] | None = "A robot pours water.",
    pipeline: str = "cosmos3-nano",
    job_id: str = "job-1",
    guardrails: bool = True,
    engine: str = "my.module:Engine",
    max_resolution: Resolution = "720p",
    plans: ParallelPlans | None = None,
    upsamples: bool = True,
    by_url: bool = False,
    guardrails_required: bool = False,
) -> Generation:
    """What a request becomes; it goes through JSON, as a queue's message does."""
    found = pipeline_named(pipeline)
    assert found is not None
    serving = Serving(
        engine=engine,
        by_url=by_url,
        guardrails=guardrails,
        guardrails_required=guardrails_required,
        max_resolution=max_resolution,
        upsamples=upsamples,
        plans=plans or {},
    )
    made = settle(read_generation_parameters(said or {}), prompt, found, medium, job_id, serving)
    assert Generation.model_validate_json(made.model_dump_json()) == made
    json.loads(made.model_dump_json(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    return made


def refusal(said: dict[str, Any] | None = None, **how: Any) -> Error:
    """The error with which a request is refused."""
    with pytest.raises(Failure) as raised:
        settled(said, **how)
    assert raised.value.error.code == "InvalidInput" and raised.value.error.remedy
    return raised.value.error
