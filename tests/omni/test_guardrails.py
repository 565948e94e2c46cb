"""NVIDIA's own `cosmos_guardrail` in the real server, with small files in place of the gated models.

They lie in folders as the model store has them, and are found by name without the Hub.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.guardrails import Checks
from cosmos_batch.engines.generator.vllm_omni.engine import VllmOmniEngine
from cosmos_batch.engines.job_files import GenerationFiles
from tests.support.generations import settled
from tests.support.guardrail_files import FORBIDDEN, NONSENSE, UNREADABLE, UNSAFE, write_cosmos_guardrail

QUICK = {"mode": "t2v", "width": 64, "height": 48, "steps": 2, "num_frames": 9}


def generation_of(prompt: str) -> Any:
    return settled(QUICK, None, prompt, guardrails=True, engine="vllm-omni")


@pytest.mark.timeout(900)  # one server that starts, and one that does not
def test_guardrails_check_and_report_prompt_and_output(checkpoint: Path, tmp_path: Path) -> None:
    engine, out = VllmOmniEngine(), tmp_path / "out"
    engine.guardrail_models = write_cosmos_guardrail(tmp_path / "store")
    out.mkdir()
    engine.load(checkpoint)
    try:
        with pytest.raises(Failure) as raised:
            asyncio.run(engine.generate(generation_of(f"A {FORBIDDEN} cube."), GenerationFiles(None, {}), out))
        assert raised.value.error.code == "Blocked" and FORBIDDEN not in str(raised.value)
        image = settled({**QUICK, "mode": "t2i", "num_frames": 1}, None, f"A {UNREADABLE} cube.", engine="vllm-omni")
        for generation in (generation_of(f"A {UNREADABLE} cube."), image):
            with pytest.raises(Failure, match="could not judge the prompt: IndexError in ") as raised:
                asyncio.run(engine.generate(generation, GenerationFiles(None, {}), out))
            assert raised.value.error.code == "EngineFailed" and not list(out.glob("output*"))
        result = asyncio.run(engine.generate(generation_of("A cube."), GenerationFiles(None, {}), out))
        assert result.checks == Checks(by="cosmos_guardrail 0.3.2", prompt="passed", output="facesBlurred")
        image = image.model_copy(update={"prompt": "A cube."})
        result = asyncio.run(engine.generate(image, GenerationFiles(None, {}), out))
        assert (result.checks.prompt, result.checks.output) == ("passed", "facesBlurred")
        unchecked = image.model_copy(update={"guardrails": False})
        assert asyncio.run(engine.generate(unchecked, GenerationFiles(None, {}), out)).checks == Checks()
    finally:
        engine.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("says", [NONSENSE, UNSAFE])
def test_guardrails_that_pass_nothing_fail_the_start(checkpoint: Path, tmp_path: Path, says: str) -> None:
    """The server generates with a prompt of its own as it starts. Unchanged guardrails treat nonsense as safe."""
    engine = VllmOmniEngine()
    engine.guardrail_models = write_cosmos_guardrail(tmp_path / "store", says)
    with pytest.raises(Failure, match="guardrails could not be loaded") as raised:
        engine.load(checkpoint)
    message = "answer of Qwen3Guard has no label" if says == NONSENSE else "blocked by Cosmos3 guardrails"
    assert raised.value.error.code == "EngineFailed" and message in raised.value.error.message


@pytest.mark.timeout(900)
def test_guardrails_without_files_fail_the_start(checkpoint: Path, tmp_path: Path) -> None:
    engine, out = VllmOmniEngine(), tmp_path / "out"
    engine.guardrail_models = write_cosmos_guardrail(tmp_path / "store")
    out.mkdir()
    (out / "empty").mkdir()
    engine.guardrail_models = dict.fromkeys(engine.guardrail_models, out / "empty")
    with pytest.raises(Failure, match="guardrails could not be loaded") as raised:
        engine.load(checkpoint)
    assert raised.value.error.code == "EngineFailed"
