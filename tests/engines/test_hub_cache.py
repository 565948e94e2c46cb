"""Libraries that load models by name find local copies and download nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants, is_offline_mode, snapshot_download

from cosmos_batch.contract.error import Failure
from cosmos_batch.demo.tokenizer import train_tokenizer, write_tokenizer
from cosmos_batch.engines.generator.guardrails import explain_guardrail_failures
from cosmos_batch.engines.hub_cache import offline_process, offline_variables

MODEL = "Qwen/Qwen3Guard-Gen-0.6B"
COMMIT = "5" * 40


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Provide copies of models as the store keeps them."""
    folder = tmp_path_factory.mktemp("store") / "Qwen--Qwen3Guard-Gen-0.6B" / COMMIT
    (folder / "words").mkdir(parents=True)
    (folder / "words" / "list").write_text("one")
    (folder / "config.json").write_text('{"model_type": "qwen3"}')
    write_tokenizer(folder, train_tokenizer())
    return {MODEL: folder}


def test_this_process_finds_copies_inside_of_the_block_only(copies: dict[str, Path], tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    before = constants.HF_HUB_CACHE
    with offline_process(tmp_path / "hub", copies):
        assert is_offline_mode()
        snapshot = Path(snapshot_download(MODEL, allow_patterns=["words/*"]))
        assert len(AutoTokenizer.from_pretrained(MODEL)) > 0
    assert (snapshot / "words" / "list").read_text() == "one"
    assert not any(path.is_symlink() for path in snapshot.rglob("*")), "NLTK opens no links"
    assert before == constants.HF_HUB_CACHE and not is_offline_mode()
    with offline_process(tmp_path / "none", {}):
        assert not is_offline_mode(), "without copies it is left to the libraries"


def test_another_process_finds_copies(copies: dict[str, Path], tmp_path: Path) -> None:
    program = f"from huggingface_hub import snapshot_download as s; print(s({MODEL!r}))"
    environment = {**os.environ, **offline_variables(tmp_path / "hub", copies), "HF_ENDPOINT": "http://127.0.0.1:9"}
    finished = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert Path(finished.stdout.strip()).resolve() == copies[MODEL]


def test_without_copies_nothing_is_downloaded(tmp_path: Path) -> None:
    assert offline_variables(tmp_path / "hub", {}) == {"HF_HUB_OFFLINE": "1"}


@pytest.mark.parametrize(
    ("line", "code", "is_named"),
    [
        ('  File "/opt/lib/cosmos_guardrail/cosmos_guardrail.py", line 9, in f', "EngineFailed", True),
        ('  File "/opt/vllm_omni/diffusion/models/cosmos3/guardrails.py", line 9', "EngineFailed", True),
        ('  File "/opt/cosmos_framework/auxiliary/guardrail/common/presets.py", line 1', "EngineFailed", True),
        ('  File "/opt/lib/cosmos_guardrail/cosmos_guardrail.py", line 9, in f', "ModelUnavailable", False),
        ("Cosmos3 guardrails initialized.", "EngineFailed", False),
    ],
)
def test_the_error_of_a_failed_start_names_guardrails(line: str, code: str, is_named: bool) -> None:
    """If memory ran out while guardrails loaded, they are the cause."""
    with pytest.raises(Failure) as raised, explain_guardrail_failures(lambda: ["Traceback", line]):
        raise Failure(code, "It ended with status 1.", "See the log.")  # type: ignore[arg-type]
    error = raised.value.error
    assert error.code == code and "ended with status 1" in error.message
    assert ("guardrails could not be loaded" in error.message) is is_named
    assert ("modelsOmni in config.json" in error.remedy) is is_named
