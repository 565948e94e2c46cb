"""What the vLLM engine does when its server dies, on a server that dies when it is told to."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cosmos_batch.contract import Answer, Failure
from cosmos_batch.engines import EngineDied
from cosmos_batch.engines import vllm as module
from cosmos_batch.engines.vllm import DEATHS_IN_A_ROW, VllmEngine
from cosmos_batch.engines.vllm_command import Plan
from tests.engines.conftest import make_job, place

Run = Callable[..., list[Answer | BaseException]]


@pytest.fixture
def most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the number of requests at once that fit into memory."""
    file = tmp_path / "most"
    file.write_text("1000")
    script = str(Path(__file__).with_name("served.py"))

    def command(_folder: Path, plan: Plan, _media: Path, socket: Path) -> list[str]:
        sequences, fit = str(plan.sequences), file.read_text()
        return [sys.executable, script, str(socket), "--sequences", sequences, "--most", fit]

    monkeypatch.setattr(module, "serve_command", command)
    return file


@pytest.fixture
def dying(most: Path, checkpoint_dir: Path) -> Iterator[VllmEngine]:
    engine = VllmEngine()
    engine.load(checkpoint_dir)
    yield engine
    engine.close()


@pytest.fixture
def run_all(dying: VllmEngine, picture: Path, tmp_path: Path) -> Run:
    """Ask several things at once; what each ended with."""

    def run_all(*prompts: str) -> list[Answer | BaseException]:
        async def ask() -> list[Answer | BaseException]:
            runs = []
            for number, prompt in enumerate(prompts):
                job = make_job(picture.name, prompt)
                place(picture, job, tmp_path / str(number))
                runs.append(dying.run(job, tmp_path / str(number)))
            return await asyncio.gather(*runs, return_exceptions=True)

        return asyncio.run(ask())

    return run_all


def test_a_death_is_everybodys_and_the_next_is_answered(run_all: Run) -> None:
    (died,) = run_all("die")
    assert isinstance(died, EngineDied) and not died.for_good
    assert "was killed by SIGKILL" in died.error.message
    assert [answer.text for answer in run_all("one", "two") if isinstance(answer, Answer)] == ["one", "two"]


def test_one_that_dies_again_and_again_is_given_up(run_all: Run) -> None:
    deaths = [run_all("die")[0] for _ in range(DEATHS_IN_A_ROW)]
    assert [isinstance(one, EngineDied) and one.for_good for one in deaths] == [False, False, True]


def test_an_answer_in_between_forgives(run_all: Run) -> None:
    for _ in range(DEATHS_IN_A_ROW):
        (died,) = run_all("die")
        assert isinstance(died, EngineDied) and not died.for_good
        run_all("fine")


def test_out_of_memory_it_starts_again_with_half_as_many_at_once(run_all: Run, dying: VllmEngine) -> None:
    before = dying._plan.sequences
    (died,) = run_all("oom")
    assert isinstance(died, EngineDied)
    assert "ran out of GPU memory" in died.error.message and "instance type" in died.error.remedy
    run_all("fine")
    assert dying._plan.sequences == before // 2


def test_where_it_does_not_fit_it_asks_for_less(most: Path, checkpoint_dir: Path) -> None:
    most.write_text("3")
    engine = VllmEngine()
    engine.load(checkpoint_dir)
    assert engine._plan.sequences == 2
    engine.close()


def test_where_nothing_fits_it_says_what_would_help(most: Path, checkpoint_dir: Path) -> None:
    most.write_text("0")
    with pytest.raises(Failure) as raised:
        VllmEngine().load(checkpoint_dir)
    assert "does not fit into the GPU's memory" in raised.value.error.message
    assert "more GPU memory" in raised.value.error.remedy


def test_a_server_that_cannot_start_again_ends_the_worker(run_all: Run, most: Path) -> None:
    run_all("die")
    most.write_text("0")
    (died,) = run_all("anything")
    assert isinstance(died, EngineDied) and died.for_good


def test_a_refusal_is_one_requests_alone(run_all: Run) -> None:
    fine, refused = run_all("fine", "refuse this")
    assert isinstance(fine, Answer) and isinstance(refused, Failure)
    assert not refused.error.retryable and "HTTP 400" in refused.error.message


def test_a_prompt_too_long_is_the_callers(run_all: Run) -> None:
    (refused,) = run_all("refuse: exceeds the maximum context length")
    assert isinstance(refused, Failure) and refused.error.code == "InvalidInput"


def test_of_a_dying_servers_words_only_errors_are_logged(run_all: Run, caplog: pytest.LogCaptureFixture) -> None:
    run_all("oom and my secret prompt")
    [record] = [record for record in caplog.records if "starts again" in record.getMessage()]
    assert vars(record)["said"] == ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"]


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="no checkpoint"):
        VllmEngine().load(tmp_path)


def test_the_context_is_the_smaller_of_the_two(most: Path, checkpoint_dir: Path) -> None:
    config = json.loads((checkpoint_dir / "config.json").read_text())
    own = config["text_config"]["max_position_embeddings"]
    for asked, got in ((None, own), (1024, 1024), (10**6, own)):
        engine = VllmEngine()
        engine.load(checkpoint_dir, asked)
        assert engine._plan.context == got
        engine.close()
