"""Separating reasoning from an answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.engines.reasoner.think_tags import split_reasoning

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
def test_tags_are_removed_and_all_text_is_kept(text: str) -> None:
    answer, reasoning = split_reasoning(text)
    letters = sorted(text.replace("<think>", "").replace("</think>", "").replace("\n", "").replace(" ", ""))
    assert sorted((answer + (reasoning or "")).replace("\n", "").replace(" ", "")) == letters


@given(st.text().filter(lambda text: "think>" not in text))
def test_text_without_tags_is_all_answer(text: str) -> None:
    assert split_reasoning(text) == (text.strip(), None)
