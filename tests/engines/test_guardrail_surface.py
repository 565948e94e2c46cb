"""The stand-in for Cosmos Framework's guardrails has what our code uses of them, as their source has it.

The framework needs a GPU. `scripts/guardrail_surface.py` read its source at the commit of our image into the record.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.engines.cosmos_framework import REVISION
from cosmos_batch.engines.cosmos_framework.driver import _BLOCKED
from tests.support import guardrail_runners
from tests.support.guardrail_runners import TextRunner, VideoRunner
from tests.support.source_surface import attributes_of, functions_of

STANDIN = Path(__file__).parent / "framework_standin"
RECORD: dict[str, Any] = json.loads((STANDIN / "guardrails.json").read_text(encoding="utf-8"))
FUNCTIONS, ATTRIBUTES = RECORD["functions"], RECORD["attributes"]
RUNNERS = Path(guardrail_runners.__file__)
COMMON = STANDIN / "cosmos_framework" / "auxiliary" / "guardrail" / "common"
# The stand-in of each function, and the calls in it that our code replaces or relies on.
STANDINS = [
    ("GuardrailRunner.run_safety_check", RUNNERS, "TextRunner.run_safety_check", {"guardrail.is_safe"}),
    ("GuardrailRunner.run_safety_check", RUNNERS, "VideoRunner.run_safety_check", set()),
    ("GuardrailRunner.postprocess", RUNNERS, "VideoRunner.postprocess", set()),
    ("Blocklist.is_safe", RUNNERS, "Blocklist.is_safe", set()),
    ("Qwen3Guard.is_safe", RUNNERS, "Qwen3Guard.is_safe", {"self.extract_label_and_categories"}),
    (
        "Qwen3Guard.extract_label_and_categories",
        RUNNERS,
        "Qwen3Guard.extract_label_and_categories",
        {"label.lower"},
    ),
    ("run_text_guardrail", COMMON / "presets.py", "run_text_guardrail", {"guardrail_runner.run_safety_check"}),
    ("_CheckpointHf.download", COMMON / "core.py", "CheckpointDirHf.download", set()),
]


def test_the_record_is_of_the_images_commit() -> None:
    assert RECORD["commit"] == REVISION, "run scripts/guardrail_surface.py"


@pytest.mark.parametrize(("real", "path", "standin", "calls"), STANDINS, ids=[row[2] for row in STANDINS])
def test_stand_in_has_the_parameters_and_the_calls(real: str, path: Path, standin: str, calls: set[str]) -> None:
    ours = functions_of(path)[standin]
    assert ours["parameters"] == FUNCTIONS[real]["parameters"]
    assert calls <= set(FUNCTIONS[real]["calls"]) and calls <= set(ours["calls"])


@pytest.mark.parametrize(
    ("real", "path", "standin", "names"),
    [
        ("GuardrailRunner", RUNNERS, "TextRunner", {"safety_models"}),
        ("GuardrailRunner", RUNNERS, "VideoRunner", {"safety_models", "postprocessors"}),
        ("Blocklist", RUNNERS, "Blocklist", {"blocklist_words"}),
        ("_CheckpointHf", COMMON / "core.py", "CheckpointDirHf", {"_path"}),
        ("Inference", STANDIN / "cosmos_framework" / "inference" / "args.py", "Pipe", {"guardrails", "model"}),
    ],
)
def test_stand_in_has_the_attributes(real: str, path: Path, standin: str, names: set[str]) -> None:
    assert names <= set(ATTRIBUTES[real]) and names <= set(attributes_of(path)[standin])


def test_stand_in_has_the_frameworks_checks() -> None:
    def classes(function: str) -> set[str]:
        return {call for call in FUNCTIONS[function]["calls"] if call[0].isupper()} - {"GuardrailRunner"}

    checks = {type(check).__name__ for check in TextRunner([]).safety_models}
    assert checks == classes("create_text_guardrail_runner")
    video = VideoRunner()
    assert [*video.safety_models, *video.postprocessors] == sorted(classes("create_video_guardrail_runner"))
    assert ATTRIBUTES["GuardrailRunners"] == ["text", "video"]


def test_the_framework_itself_asks_the_runners_that_our_driver_changes() -> None:
    assert "presets.run_text_guardrail" in FUNCTIONS["Inference._run_text_guardrail"]["calls"]
    asked = {"video_guardrail_runner.run_safety_check", "video_guardrail_runner.postprocess"}
    assert "_run_video_guardrail" in FUNCTIONS["Inference._run_video_guardrail"]["calls"]
    assert asked <= set(FUNCTIONS["_run_video_guardrail"]["calls"])


def test_the_driver_knows_a_refusal_by_the_frameworks_words() -> None:
    functions = ("Inference._run_text_guardrail", "Inference._run_video_guardrail")
    messages = [message for name in functions for message in FUNCTIONS[name]["raises"]]
    assert len(messages) == len(_BLOCKED)
    assert all(message.startswith(words) for message, words in zip(messages, _BLOCKED, strict=True))
