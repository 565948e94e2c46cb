"""Our requests to PhyAI for each case of the table, and invalid requests. `phyai.json` records PhyAI's answers."""

import json
from pathlib import Path
from typing import Any

from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.engines.generator.phyai.engine import REVISION
from cosmos_batch.engines.generator.phyai.requests import RequestInputs, request_for
from cosmos_batch.planning.generation.prompts import nvidia_negative_prompt
from tests.engines.generator.argument_models.table import NEGATIVE, Case, cases

REPOSITORY, COMMIT = "MEmbodied/phyai", REVISION
CLASSES = "Cosmos3T2VRequest, Cosmos3ActionRequest, Cosmos3Processor and EngineConfig"
# The packages that these classes import. PhyAI's compiled extension is replaced by a mock.
PACKAGES = (
    "httpx2",
    "numpy",
    "packaging",
    "pillow",
    "pydantic",
    "safetensors",
    "torch",
    "torchvision",
    "tqdm",
    "transformers==5.8.1",
)

RECORD = Path(__file__).with_name("phyai.json")
ENGINE = "phyai"


def sent() -> dict[str, dict[str, Any]]:
    """Return the requests by the names of their cases, and plans of GPUs."""
    plans = {f"tp {tp}, cfg {cfg}": {"plan": {"tp": tp, "cfg": cfg}} for tp in (1, 2, 4, 8) for cfg in (1, 2)}
    return {case.name: _request(case, generation) for case, generation in cases(ENGINE)} | plans


def question(_name: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the request, which needs no other context."""
    return request


def spoiled() -> dict[str, dict[str, Any]]:
    """Return invalid requests and plans, each wrong in one thing."""
    forward = sent()["forward_dynamics av"]
    return {
        "a domain that is none": {**forward, "action": {**forward["action"], "domain_name": "submarine"}},
        "forward dynamics without actions": {**forward, "action": {**forward["action"], "rows": None}},
        "a plan of no processes": {"plan": {"tp": 0, "cfg": 1}},
        "a plan of less than one branch": {"plan": {"tp": 1, "cfg": 0}},
    }


def _request(case: Case, generation: Generation) -> dict[str, Any]:
    assert generation.size is not None, case.name
    seen = case.medium is not None
    inputs = RequestInputs(
        Path("given.npy") if seen else None, generation.action.actions if generation.action else None
    )
    request: dict[str, Any] = json.loads(json.dumps(request_for(generation, generation.size, inputs)))
    request["negative_prompt"] = request["negative_prompt"].replace(nvidia_negative_prompt(), NEGATIVE)
    return request
