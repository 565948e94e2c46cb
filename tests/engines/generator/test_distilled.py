"""Engines recognize a distilled checkpoint by its files, whatever its folder is called."""

import json
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.demo.tokenizer import write_json
from cosmos_batch.engines.checkpoints import FIXED_STEPS, GENERATOR_PARTS, fixed_noise_levels
from cosmos_batch.engines.generator.cosmos_framework.engine import FrameworkGenerator
from cosmos_batch.engines.generator.diffusers.engine import DiffusersEngine
from cosmos_batch.engines.generator.phyai.engine import PhyaiEngine
from cosmos_batch.engines.generator.vllm_omni import engine as vllm_omni
from cosmos_batch.engines.generator.vllm_omni.engine import VllmOmniEngine
from cosmos_batch.engines.protocol import Engine

STEPS = {"t_list": [1.0, 0.9375, 0.8333, 0.625], "sample_type": "sde"}


def written(folder: Path, scheduler: dict[str, Any]) -> Path:
    for part in (*GENERATOR_PARTS, "scheduler/scheduler_config.json"):
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        write_json(folder / part, scheduler if part.startswith("scheduler/") else {})
    return folder


@pytest.mark.parametrize("name", ["FlowMatchEulerDiscreteScheduler", "AnotherScheduler"])
def test_noise_levels_are_read_from_the_scheduler(name: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "post-trained", {"_class_name": name, FIXED_STEPS: STEPS})
    assert fixed_noise_levels(folder) == (1.0, 0.9375, 0.8333, 0.625)


@pytest.mark.parametrize("scheduler", [{"_class_name": "UniPCMultistepScheduler"}, {}, []], ids=json.dumps)
def test_other_checkpoints_have_no_fixed_noise_levels(scheduler: Any, tmp_path: Path) -> None:
    assert fixed_noise_levels(written(tmp_path / "plain", scheduler)) is None


@pytest.mark.parametrize(
    "sampler",
    [None, {}, {"t_list": [], "sample_type": "sde"}, {"t_list": [1.0], "sample_type": "ode"}, {"t_list": ["a"]}],
    ids=json.dumps,
)
@pytest.mark.parametrize("engine", [DiffusersEngine, VllmOmniEngine], ids=lambda one: one.__name__)
def test_a_distilled_checkpoint_without_its_steps_is_refused(
    engine: type[Engine], sampler: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_omni, "version", lambda _: "0.30.0")
    scheduler = {"_class_name": "FlowMatchEulerDiscreteScheduler"}
    folder = written(tmp_path / "broken", scheduler if sampler is None else {**scheduler, FIXED_STEPS: sampler})
    loading = engine()
    if isinstance(loading, DiffusersEngine):
        loading.guardrails = False
    with pytest.raises(Failure, match="broken is distilled, and its scheduler does not list its steps") as raised:
        loading.load(folder)
    assert (raised.value.error.code, raised.value.error.retryable) == ("ModelUnavailable", False)


@pytest.mark.parametrize("engine", [FrameworkGenerator, PhyaiEngine], ids=lambda one: one.__name__)
def test_the_other_engines_refuse_a_distilled_checkpoint(engine: type[Engine], tmp_path: Path) -> None:
    folder = written(tmp_path / "post-trained", {FIXED_STEPS: STEPS})
    with pytest.raises(Failure, match=r"post-trained is distilled to a few fixed steps, which .* does not") as raised:
        engine().load(folder)
    error = raised.value.error
    assert (error.code, error.retryable) == ("ModelUnavailable", False) and "distilled from" in error.remedy
