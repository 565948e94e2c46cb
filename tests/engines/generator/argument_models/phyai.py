"""What we send to PhyAI for the table, and requests that are wrong: what it said is in `phyai.json`."""

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
# What these import. Its compiled parts are stood in for.
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
    """Requests by the name of their case, and plans."""
    plans = {f"tp {tp}, cfg {cfg}": {"plan": {"tp": tp, "cfg": cfg}} for tp in (1, 2, 4, 8) for cfg in (1, 2)}
    return {case.name: _request(case, asked) for case, asked in cases(ENGINE)} | plans


def question(_name: str, request: dict[str, Any]) -> dict[str, Any]:
    """All that it needs."""
    return request


def spoiled() -> dict[str, dict[str, Any]]:
    """Requests and plans that are none, each wrong in one thing."""
    forward = sent()["forward_dynamics av"]
    return {
        "a domain that is none": {**forward, "action": {**forward["action"], "domain_name": "submarine"}},
        "forward dynamics without actions": {**forward, "action": {**forward["action"], "rows": None}},
        "a plan of no processes": {"plan": {"tp": 0, "cfg": 1}},
        "a plan of less than one branch": {"plan": {"tp": 1, "cfg": 0}},
    }


def _request(case: Case, asked: Generation) -> dict[str, Any]:
    assert asked.size is not None, case.name
    seen = case.medium is not None
    given = RequestInputs(Path("given.npy") if seen else None, asked.action.actions if asked.action else None)
    request: dict[str, Any] = json.loads(json.dumps(request_for(asked, asked.size, given)))
    request["negative_prompt"] = request["negative_prompt"].replace(nvidia_negative_prompt(), NEGATIVE)
    return request
