"""NVIDIA's own `cosmos_guardrail` in the real server, with files in the place of the gated models, from folders as the
model store has them: found by name, while nothing is asked of the Hub."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.guardrails import Checks
from cosmos_batch.engines.generator.vllm_omni.engine import VllmOmniEngine
from cosmos_batch.engines.job_files import GenerationFiles
from tests.guardrail_files import FORBIDDEN, NONSENSE, UNREADABLE, UNSAFE, write_cosmos_guardrail
from tests.support.generations import settled

QUICK = {"mode": "t2v", "width": 64, "height": 48, "steps": 2, "num_frames": 9}


def asked(prompt: str) -> Any:
    return settled(QUICK, None, prompt, guardrails=True, engine="vllm-omni")


@pytest.mark.timeout(900)  # a server, and one that does not start
def test_guardrails_check_what_is_made_and_report_it(checkpoint: Path, tmp_path: Path) -> None:
    engine, out = VllmOmniEngine(), tmp_path / "out"
    engine.guardrail_models = write_cosmos_guardrail(tmp_path / "store")
    out.mkdir()
    engine.load(checkpoint)
    try:
        with pytest.raises(Failure) as raised:
            asyncio.run(engine.generate(asked(f"A {FORBIDDEN} cube."), GenerationFiles(None, {}), out))
        assert raised.value.error.code == "Blocked" and FORBIDDEN not in str(raised.value)
        image = settled({**QUICK, "mode": "t2i", "num_frames": 1}, None, f"A {UNREADABLE} cube.", engine="vllm-omni")
        for generation in (asked(f"A {UNREADABLE} cube."), image):
            with pytest.raises(Failure, match="could not judge the prompt: IndexError") as raised:
                asyncio.run(engine.generate(generation, GenerationFiles(None, {}), out))
            assert raised.value.error.code == "EngineFailed" and not list(out.glob("output*"))
        made = asyncio.run(engine.generate(asked("A cube."), GenerationFiles(None, {}), out))
        assert made.checks == Checks(by="cosmos_guardrail 0.3.2", prompt="passed", output="facesBlurred")
        image = image.model_copy(update={"prompt": "A cube."})
        made = asyncio.run(engine.generate(image, GenerationFiles(None, {}), out))
        assert (made.checks.prompt, made.checks.output) == ("passed", "facesBlurred")
        unchecked = image.model_copy(update={"guardrails": False})
        assert asyncio.run(engine.generate(unchecked, GenerationFiles(None, {}), out)).checks == Checks()
    finally:
        engine.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("says", [NONSENSE, UNSAFE])
def test_guardrails_that_let_nothing_pass_are_told_at_the_start(checkpoint: Path, tmp_path: Path, says: str) -> None:
    """The server makes something of a prompt of its own as it starts. As they come, they take nonsense for safe."""
    engine = VllmOmniEngine()
    engine.guardrail_models = write_cosmos_guardrail(tmp_path / "store", says)
    with pytest.raises(Failure, match="guardrails could not be loaded") as raised:
        engine.load(checkpoint)
    told = "answer of Qwen3Guard has no label" if says == NONSENSE else "blocked by Cosmos3 guardrails"
    assert raised.value.error.code == "EngineFailed" and told in raised.value.error.message


@pytest.mark.timeout(900)
def test_guardrails_whose_files_are_missing_are_told_at_the_start(checkpoint: Path, tmp_path: Path) -> None:
    engine, out = VllmOmniEngine(), tmp_path / "out"
    engine.guardrail_models = write_cosmos_guardrail(tmp_path / "store")
    out.mkdir()
    (out / "empty").mkdir()
    engine.guardrail_models = dict.fromkeys(engine.guardrail_models, out / "empty")
    with pytest.raises(Failure, match="guardrails could not be loaded") as raised:
        engine.load(checkpoint)
    assert raised.value.error.code == "EngineFailed"
