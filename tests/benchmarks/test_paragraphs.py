"""Numbers in the sentences of the benchmarks page."""

import pytest

from benchmarks.paragraphs import listed


@pytest.mark.parametrize(
    ("values", "text"), [([], ""), ([1], "1.0"), ([1, 2.25], "1.0 and 2.2"), ([1, 2, 3.06], "1.0, 2.0 and 3.1")]
)
def test_numbers_are_listed_with_a_word_before_the_last(values: list[float], text: str) -> None:
    assert listed(values, 1) == text
