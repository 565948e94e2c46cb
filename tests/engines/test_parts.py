"""The engine's small parts: reasoning, sampling, logs, generation, torchvision's import."""

import logging
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.factory import create_engine
from cosmos_batch.engines.journal import Journal, plain_lines
from cosmos_batch.engines.library_imports import import_torchvision
from cosmos_batch.engines.reasoner.prompting import sampling_for
from cosmos_batch.engines.reasoner.think_tags import split_reasoning
from cosmos_batch.engines.reasoner.transformers.generation import (
    _calling,
    _presence_penalty,
    _sampling_settings,
    end_tokens,
)
from cosmos_batch.planning.questions import ANSWERING, REASONING
from tests.engines.conftest import make_job

TAGGED = st.lists(st.one_of(st.sampled_from(["<think>", "</think>"]), st.text("ab <>/\n"))).map("".join)


@pytest.mark.parametrize(
    ("text", "answer", "reasoning"),
    [
        ("A robot.", "A robot.", None),
        ("<think>\nIt moves.\n</think>\n\nA robot.", "A robot.", "It moves."),
        ("It moves.</think>A robot.", "A robot.", "It moves."),
        ("<think>It moves, and", "", "It moves, and"),
        ("<think></think>A robot.", "A robot.", None),
        ("<think>a</think>b</think>c", "bc", "a"),
        ("A robot.<think>Is it?", "A robot.", "Is it?"),
        ("", "", None),
    ],
)
def test_reasoning_is_split_from_the_answer(text: str, answer: str, reasoning: str | None) -> None:
    assert split_reasoning(text) == (answer, reasoning)


@given(TAGGED)
def test_no_tag_stays_and_no_word_is_lost(text: str) -> None:
    answer, reasoning = split_reasoning(text)
    letters = sorted(text.replace("<think>", "").replace("</think>", "").replace("\n", "").replace(" ", ""))
    assert sorted((answer + (reasoning or "")).replace("\n", "").replace(" ", "")) == letters


@given(st.text().filter(lambda text: "think>" not in text))
def test_text_without_tags_is_all_answer(text: str) -> None:
    assert split_reasoning(text) == (text.strip(), None)


def test_sampling_is_that_of_nvidia() -> None:
    assert sampling_for(make_job("a.png")) == ANSWERING
    assert sampling_for(make_job("a.png", reasoning=True)) == REASONING
    assert (ANSWERING.temperature, ANSWERING.top_p, ANSWERING.top_k, ANSWERING.seed) == (0.7, 0.8, 20, 3407)
    assert (REASONING.temperature, REASONING.top_p, REASONING.top_k, REASONING.seed) == (0.6, 0.95, 20, 1234)


@pytest.mark.parametrize("reasoning", [False, True])
def test_a_callers_values_take_the_place_of_nvidias_one_by_one(reasoning: bool) -> None:
    published = REASONING if reasoning else ANSWERING
    for name, alias, value in [("temperature", "temperature", 0.0), ("top_k", "topK", 0), ("seed", "seed", 0)]:
        found = sampling_for(make_job("a.png", reasoning=reasoning, **{alias: value}))
        assert found == replace(published, **{name: value})


def test_temperature_zero_takes_the_likeliest() -> None:
    assert _sampling_settings(replace(ANSWERING, temperature=0.0))["do_sample"] is False
    assert _sampling_settings(ANSWERING) == {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20}


def test_progress_bars_and_colours_are_left_out() -> None:
    bar = "Loading:   0%|    | 0/4\rLoading: 100%|####| 4/4\n\x1b[32mdone\x1b[0m\n\n"
    assert plain_lines(bar) == ["Loading: 100%|####| 4/4", "done"]


@given(st.text())
def test_lines_are_plain_whatever_a_library_writes(text: str) -> None:
    for line in plain_lines(text):
        assert not set(line) & {"\x1b", "\r", "\n", "\x00", "\x08"}


def test_a_journal_takes_its_own_threads_records_only() -> None:
    journal, library = Journal(), logging.getLogger("some_library")
    with journal.listening("some_library"):
        library.warning("mine")
        other = threading.Thread(target=library.warning, args=("another's",))
        other.start()
        other.join()
    library.warning("later")
    assert [line.split("s  ")[1] for line in journal.lines] == ["some_library: WARNING: mine"]


def test_presence_penalty_counts_the_answer_alone_and_once() -> None:
    import torch

    scores = _presence_penalty(1.5, prompt_tokens=2)(torch.tensor([[0, 1, 2, 2]]), torch.zeros(1, 4))
    assert scores.tolist() == [[0, 0, -1.5, 0]]


def test_generation_is_checked_at_each_token() -> None:
    import torch

    def check() -> None:
        raise Failure("Cancelled", "m", "r")

    assert _calling(lambda: None)(torch.zeros(1, 3), None).tolist() == [False]
    with pytest.raises(Failure):
        _calling(check)(torch.zeros(1, 3), None)


@pytest.mark.parametrize(("configured", "ends"), [(None, []), (3, [3]), ([3, 4], [3, 4])])
def test_end_tokens_of_every_spelling(configured: int | list[int] | None, ends: list[int]) -> None:
    assert end_tokens(configured) == ends


def test_torchvision_is_imported_as_it_is_where_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "torchvision", whole)
    import_torchvision()
    assert sys.modules["torchvision"] is whole


def test_other_errors_of_torchvision_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "torchvision":
                raise RuntimeError("libcuda is too old")

    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(RuntimeError, match="libcuda"):
        import_torchvision()


def test_an_engine_that_is_not_there_says_so_when_it_shall_load(tmp_path: Path) -> None:
    with pytest.raises(Failure) as raised:
        create_engine("vllm-omni").load(tmp_path / "Cosmos3-Nano")
    assert raised.value.error.code == "EngineFailed" and not raised.value.error.retryable
    assert "'vllm-omni'" in raised.value.error.message and "engine" in raised.value.error.remedy
