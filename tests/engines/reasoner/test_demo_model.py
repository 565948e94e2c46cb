"""The demo model through both engines: each is right about every item that the end-to-end tests assert."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosmos_batch.contract.parameters import read_parameters
from cosmos_batch.contract.result import Answer
from cosmos_batch.demo import DEMO_REASON
from cosmos_batch.engines.factory import create_engine
from cosmos_batch.engines.protocol import Engine
from cosmos_batch.planning.questions import settle_question
from tests.engines.conftest import make_job, place
from tests.support.demo_questions import GREEDY, QUESTIONS, DemoQuestion
from tests.support.real_vllm import needs_vllm

pytestmark = pytest.mark.timeout(900)  # vLLM starts in a minute, and in many beside busy processes


@pytest.fixture(scope="module", params=["transformers", pytest.param("vllm", marks=[needs_vllm, pytest.mark.slow])])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Provide each engine with the demo model."""
    with pytest.MonkeyPatch.context() as patch:
        # As a worker does: jobs' folders, and nothing else, lie below this one.
        patch.setattr("tempfile.tempdir", str(tmp_path_factory.getbasetemp()))
        engine = create_engine(request.param)
        engine.load(DEMO_REASON)
        yield engine
        engine.close()


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=list(QUESTIONS))
def test_the_answer_is_true(engine: Engine, question: DemoQuestion, tmp_path: Path) -> None:
    answer = ask(engine, question, tmp_path)

    assert question.is_true(answer.text), answer.text


def test_asked_to_reason_it_writes_its_thoughts_and_then_a_true_answer(engine: Engine, tmp_path: Path) -> None:
    answer = ask(engine, QUESTIONS["forwards"], tmp_path, reasoning=True)

    assert answer.reasoning is not None
    assert "red circle" in answer.reasoning
    assert QUESTIONS["forwards"].is_true(answer.text), answer.text


def ask(engine: Engine, question: DemoQuestion, folder: Path, **more: bool) -> Answer:
    path = question.write(folder)
    parameters = read_parameters({**GREEDY, **question.parameters, **more})
    settled = settle_question(parameters, question.prompt, None, "video" if question.image_at is None else "image")
    job = make_job(path.name, settled.text, **settled.parameters.model_dump(by_alias=True))
    place(path, job, folder / "job")
    answer = asyncio.run(engine.run(job, folder / "job"))
    assert isinstance(answer, Answer)
    return answer
