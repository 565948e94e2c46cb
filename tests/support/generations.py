"""Helpers of tests that settle a generation: `settled` returns it, `refusal` returns the error instead."""

import json
from typing import Any

import pytest

from cosmos_batch.catalogue.formats import Medium
from cosmos_batch.catalogue.generation import Mode, Resolution
from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.serving import ParallelPlans, Serving
from cosmos_batch.planning.generation.aliases import read_generation_parameters
from cosmos_batch.planning.generation.settling import settle

AV = {"mode": "forward_dynamics", "domain_name": "av", "action": [[0.0] * 9] * 60}
EDGE = {"mode": "transfer", "controls": {"edge": {"path": "s3://my-bucket/edge.mp4"}}}

# For each mode: parameters of a request, and the kind of its input.
REQUEST_OF_MODE: dict[Mode, tuple[dict[str, Any], Any]] = {
    "t2i": ({"mode": "t2i"}, None),
    "t2v": ({}, None),
    "i2v": ({}, "image"),
    "v2v": ({}, "video"),
    "transfer": (EDGE, None),
    "forward_dynamics": (AV, "image"),
    "inverse_dynamics": ({"mode": "inverse_dynamics", "domain_name": "av"}, "video"),
    "policy": ({"mode": "policy", "domain_name": "av"}, "image"),
}


def settled(
    parameters: dict[str, Any] | None = None,
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
    fixed_steps: int | None = None,
) -> Generation:
    """Settle a request, and check that the generation survives JSON, as in the message of a queue."""
    catalogue_pipeline = pipeline_named(pipeline)
    assert catalogue_pipeline is not None
    serving = Serving(
        engine=engine,
        by_url=by_url,
        guardrails=guardrails,
        guardrails_required=guardrails_required,
        max_resolution=max_resolution,
        upsamples=upsamples,
        fixed_steps=fixed_steps,
        plans=plans or {},
    )
    generation = settle(
        read_generation_parameters(parameters or {}), prompt, catalogue_pipeline, medium, job_id, serving
    )
    assert Generation.model_validate_json(generation.model_dump_json()) == generation
    json.loads(generation.model_dump_json(), parse_constant=lambda name: pytest.fail(f"{name} is not valid JSON"))
    return generation


def refusal(parameters: dict[str, Any] | None = None, **settings: Any) -> Error:
    """Return the error with which a request is refused."""
    with pytest.raises(Failure) as raised:
        settled(parameters, **settings)
    assert raised.value.error.code == "InvalidInput" and raised.value.error.remedy
    return raised.value.error


def document_of(generation: Generation, medium: str | None, names: list[str]) -> dict[str, Any]:
    """Return the fields of a document that every release writes."""
    files = [{"uri": f"s3://my-bucket/{name}", "versionId": name} for name in names]
    start = {"uri": f"s3://my-bucket/in.{medium}", "versionId": "first"}
    return {
        "pipeline": "cosmos3-nano", "model": "nvidia/Cosmos3-Nano", "revision": "1234", "engine": "diffusers 0.38.0",
        "input": start if medium else None, "moreInputs": files, "generation": json.loads(generation.model_dump_json()),
        "ofAnotherRelease": 1,
    }  # fmt: skip
