"""NVIDIA's own `cosmos_guardrail` in the real server, with files in the place of the gated models, from folders as the
model store has them: found by name, while nothing is asked of the Hub."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.engines import GenerationFiles
from cosmos_batch.engines.generator.vllm_omni.engine import VllmOmniEngine
from tests.contract.generations import settled
from tests.guardrail_files import FORBIDDEN, write_cosmos_guardrail

QUICK = {"mode": "t2v", "width": 64, "height": 48, "steps": 2, "num_frames": 9}


def asked(prompt: str) -> Any:
    return settled(QUICK, None, prompt, guardrails=True, engine="vllm-omni")


@pytest.mark.timeout(900)  # a server, and one that does not start
def test_guardrails_check_and_what_lacks_their_files_says_so(checkpoint: Path, tmp_path: Path) -> None:
    engine, out = VllmOmniEngine(), tmp_path / "out"
    engine.guardrail_models = write_cosmos_guardrail(tmp_path / "store")
    out.mkdir()
    engine.load(checkpoint)
    try:
        with pytest.raises(Failure) as raised:
            asyncio.run(engine.generate(asked(f"A {FORBIDDEN} cube."), GenerationFiles(None, {}), out))
        assert raised.value.error.code == "Blocked" and FORBIDDEN not in str(raised.value)
        assert asyncio.run(engine.generate(asked("A cube."), GenerationFiles(None, {}), out)).files
    finally:
        engine.close()
    (out / "empty").mkdir()
    engine.guardrail_models = dict.fromkeys(engine.guardrail_models, out / "empty")
    with pytest.raises(Failure, match="guardrails could not be loaded") as raised:
        engine.load(checkpoint)
    assert raised.value.error.code == "EngineFailed"
