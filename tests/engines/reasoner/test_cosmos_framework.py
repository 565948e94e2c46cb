"""Cosmos Framework's reasoner: the driver runs in a real torchrun group of two, on a stand-in for the framework."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.result import Answer
from cosmos_batch.demo.checkpoint import build_random_cosmos3
from cosmos_batch.engines.errors import EngineDied
from cosmos_batch.engines.factory import create_engine
from cosmos_batch.engines.reasoner import cosmos_framework
from cosmos_batch.engines.reasoner.chat_request import CheckpointInfo, prepare_request
from cosmos_batch.engines.reasoner.cosmos_framework import REVISION, FrameworkReasoner, sample_of
from cosmos_batch.engines.serving.server import Server
from cosmos_batch.engines.torchrun.group import GroupPlan
from tests.engines.conftest import make_job, place
from tests.support import vllm_server

STANDIN = Path(__file__).parents[1] / "framework_standin"
RECORD = json.loads((STANDIN / "samples.json").read_text())
ROOT = Path(__file__).parents[3]
TWO = 2

Run = Callable[..., list[Answer | BaseException]]


@pytest.fixture(scope="module")
def patched() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cosmos_framework, "gpus_here", lambda: TWO)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(STANDIN), str(ROOT)]))
        yield patch


@pytest.fixture(scope="module")
def cosmos3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_random_cosmos3(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def framework(cosmos3: Path, patched: pytest.MonkeyPatch) -> Iterator[FrameworkReasoner]:
    engine = FrameworkReasoner()
    engine.load(cosmos3)
    yield engine
    engine.close()


@pytest.fixture
def ask(framework: FrameworkReasoner, picture: Path, tmp_path: Path) -> Run:
    def ask(*prompts: str, source: Path = picture, **parameters: Any) -> list[Answer | BaseException]:
        async def all_of_them() -> list[Answer | BaseException]:
            framework._turn = asyncio.Lock()  # it is of the one loop that a worker has; each call here has its own
            runs = []
            for number, prompt in enumerate(prompts):
                job = make_job(source.name, prompt, **parameters)
                place(source, job, tmp_path / str(number))
                runs.append(framework.run(job, tmp_path / str(number)))
            return await asyncio.gather(*runs, return_exceptions=True)

        return asyncio.run(all_of_them())

    return ask


def test_a_group_loads_once_and_answers_one_job_after_another(
    ask: Run, framework: FrameworkReasoner, cosmos3: Path
) -> None:
    answers = ask("What is it?", "And this?", maxTokens=64)
    assert [answer.text for answer in answers if isinstance(answer, Answer)] == [
        f"{TWO} processes, load 1, saw (288, 192): {prompt}" for prompt in ("What is it?", "And this?")
    ]
    again = ask("<think>Red.</think>A cube.", maxTokens=64)[0]
    assert isinstance(again, Answer) and again.reasoning == "Red." and "load 1" in again.text
    assert again.usage.prompt_tokens > 12 and again.usage.completion_tokens > 0 and again.finish_reason == "stop"
    assert {"decode", "generate"} <= again.timings.keys()
    assert any(f"loaded {cosmos3}" in line for line in framework.startup_logs)


def test_an_answer_that_reaches_max_tokens_finishes_by_length(ask: Run) -> None:
    [answer] = ask("Talk.", maxTokens=2)
    assert isinstance(answer, Answer) and answer.finish_reason == "length"


def test_a_refused_or_failed_request_leaves_the_others_alone(ask: Run) -> None:
    refused, failed, fine = ask(" ", "fail", "fine", maxTokens=64)
    assert isinstance(refused, Failure) and not refused.error.retryable
    assert "requires a non-empty 'prompt'" in refused.error.message
    assert isinstance(failed, Failure) and failed.error.retryable
    assert isinstance(fine, Answer)


@pytest.mark.slow  # the generator of Cosmos Framework, which is served alike, is restarted in make test
def test_a_process_that_crashes_ends_the_group_and_the_next_job_starts_a_new_group(
    ask: Run, framework: FrameworkReasoner
) -> None:
    before = framework._served._server
    (died,) = ask("die")
    assert isinstance(died, EngineDied) and not died.for_good
    assert before is not None and not before.is_running
    [answer] = ask("fine", maxTokens=64)
    assert isinstance(answer, Answer) and "fine" in answer.text
    assert framework._served._server is not before


def test_closing_the_engine_stops_a_group_that_restarts(cosmos3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def command(*more: str) -> Callable[[GroupPlan, Path, Path], list[str]]:
        return lambda _plan, _checkpoint, folder: [sys.executable, vllm_server.__file__, str(folder / "socket"), *more]

    monkeypatch.setattr(GroupPlan, "command", command())
    engine = FrameworkReasoner()
    engine.load(cosmos3)
    dead = engine._served._server
    assert dead is not None
    dead.stop()
    monkeypatch.setattr(GroupPlan, "command", command("--deaf"))

    async def closed_meanwhile() -> Server:
        asking = asyncio.ensure_future(engine._served._running_server())
        while (starting := engine._served._server) is dead or starting is None or not starting.last_lines:
            await asyncio.sleep(0.05)
        engine.close()
        with pytest.raises(EngineDied):
            await asking
        return starting

    assert not asyncio.run(closed_meanwhile()).is_running


def test_anything_but_one_image_is_refused_with_a_remedy(
    framework: FrameworkReasoner, ask: Run, clip: Path, tmp_path: Path
) -> None:
    (video,) = ask("What?", source=clip)
    with pytest.raises(Failure, match="one image a request") as several:
        asyncio.run(framework.run(make_job("a.png", more=["b.png"]), tmp_path))
    assert isinstance(video, Failure) and "clip.mp4 is a video" in video.error.message
    for refused in (video, several.value):
        assert refused.error.code == "InvalidInput" and "'vllm'" in refused.error.remedy


def test_a_group_that_cannot_start_says_why(cosmos3: Path, patched: pytest.MonkeyPatch) -> None:
    patched.setenv("COSMOS_STANDIN_REFUSES", "1")
    engine = FrameworkReasoner()
    with pytest.raises(Failure) as raised:
        engine.load(cosmos3)
    patched.delenv("COSMOS_STANDIN_REFUSES")
    assert raised.value.error.code == "ModelUnavailable" and "engine 'vllm'" in raised.value.error.remedy
    engine.close()


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="no checkpoint"):
        FrameworkReasoner().load(tmp_path)


def test_it_is_created_by_its_name() -> None:
    engine = create_engine("cosmos-framework-reasoner")
    assert isinstance(engine, FrameworkReasoner) and engine.name == "cosmos-framework 5eee9ed"


def test_the_record_is_of_the_commit_that_the_image_has() -> None:
    assert RECORD["commit"] == REVISION
    assert f"ARG REVISION={REVISION}\n" in (ROOT / "containers" / "framework" / "Dockerfile").read_text()


# By the framework's own model, all but what only `build_sample` sees.
CASES = [one for one in RECORD["cases"] if one["case"] not in ("an empty prompt", "an AVI")]


@pytest.mark.parametrize("case", CASES, ids=lambda one: one["case"])
def test_the_recorded_schema_decides_as_the_framework_did(case: dict[str, Any]) -> None:
    sample = {name: value for name, value in case["sample"].items() if name not in RECORD["otherFields"]}
    if sample == case["sample"]:
        assert Draft202012Validator(RECORD["schema"]).is_valid(sample) is case["accepted"]


@pytest.mark.parametrize(
    ("case", "system", "parameters"),
    [
        ("as it is by default", None, {}),
        ("greedy", None, {"temperature": 0}),
        ("all tokens", None, {"topK": 0}),
        ("a system prompt before the question", "Be brief.", {}),
    ],
)
def test_our_samples_are_those_that_the_framework_accepted(
    cosmos3: Path, picture: Path, tmp_path: Path, case: str, system: str | None, parameters: dict[str, Any]
) -> None:
    [recorded] = [one for one in RECORD["cases"] if one["case"] == case]
    assert recorded["accepted"]
    job = make_job(picture.name, "What is it?", maxTokens=2048, **parameters)
    job = job if system is None else job.model_copy(update={"system_prompt": system})
    place(picture, job, tmp_path / "a folder")
    question = prepare_request(
        CheckpointInfo.from_folder(cosmos3, 8192), job, [tmp_path / "a folder" / "input0.png"], lambda: None
    )
    sample = sample_of(question)
    assert Path(sample["vision_path"]).is_file()
    assert {**sample, "vision_path": recorded["sample"]["vision_path"]} == recorded["sample"]
