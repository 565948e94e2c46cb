"""Every engine recognizes a distilled checkpoint by its files and refuses it, whatever its folder is called."""

import json
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.demo.tokenizer import write_json
from cosmos_batch.engines.checkpoints import GENERATOR_PARTS
from cosmos_batch.engines.generator.cosmos_framework.engine import FrameworkGenerator
from cosmos_batch.engines.generator.diffusers.engine import DiffusersEngine
from cosmos_batch.engines.generator.phyai.engine import PhyaiEngine
from cosmos_batch.engines.generator.vllm_omni import engine as vllm_omni
from cosmos_batch.engines.generator.vllm_omni.engine import VllmOmniEngine
from cosmos_batch.engines.protocol import Engine

ENGINES = [DiffusersEngine, VllmOmniEngine, FrameworkGenerator, PhyaiEngine]
STEPS = {"t_list": [1.0, 0.9375, 0.8333, 0.625], "sample_type": "sde"}


@pytest.mark.parametrize(
    "scheduler",
    [
        {"_class_name": "FlowMatchEulerDiscreteScheduler", "fixed_step_sampler_config": STEPS},
        {"_class_name": "FlowMatchEulerDiscreteScheduler"},
        {"_class_name": "AnotherScheduler", "fixed_step_sampler_config": STEPS},
    ],
    ids=json.dumps,
)
@pytest.mark.parametrize("engine", ENGINES, ids=lambda one: one.__name__)
def test_every_engine_refuses_a_distilled_checkpoint(
    engine: type[Engine], scheduler: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_omni, "version", lambda _: "0.30.0")
    folder = tmp_path / "post-trained"
    for part in (*GENERATOR_PARTS, "scheduler/scheduler_config.json"):
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        write_json(folder / part, scheduler if part.startswith("scheduler/") else {})
    loading = engine()
    if isinstance(loading, DiffusersEngine):
        loading.guardrails = False
    with pytest.raises(Failure, match="post-trained is distilled to a few fixed steps") as raised:
        loading.load(folder)
    error = raised.value.error
    assert (error.code, error.retryable) == ("ModelUnavailable", False) and "distilled from" in error.remedy
