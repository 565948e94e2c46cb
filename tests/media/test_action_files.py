"""Actions are written to files and read from them."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cosmos_batch.contract.error import Failure
from cosmos_batch.media import read_actions, write_actions
from cosmos_batch.media.action_files import SIZE_LIMIT


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=9, max_size=9), min_size=1)
)
def test_actions_are_read_exactly_as_written(tmp_path: Path, rows: list[list[float]]) -> None:
    write_actions(tmp_path / "a.json", np.array(rows, np.float32))
    assert read_actions(tmp_path / "a.json", 9) == rows


def test_an_action_file_is_plain_json(tmp_path: Path) -> None:
    write_actions(tmp_path / "a.json", np.array([[1, 2], [3, 4.5]]))
    assert json.loads((tmp_path / "a.json").read_text()) == [[1, 2], [3, 4.5]]


@pytest.mark.parametrize(
    ("actions", "word"),
    [
        (np.array([[0.0, 1.0], [np.nan, 2.0]]), "row 1"),
        (np.array([[np.inf, 1.0]]), "row 0"),
        (np.zeros(9), r"\[9\]"),
        (np.zeros((1, 16, 9)), r"\[1, 16, 9\]"),
        (np.zeros((0, 9)), r"\[0, 9\]"),
    ],
)
def test_invalid_actions_are_not_written(tmp_path: Path, actions: np.ndarray, word: str) -> None:
    with pytest.raises(Failure, match=word) as refused:
        write_actions(tmp_path / "a.json", actions)
    assert refused.value.error.code == "EngineFailed"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (b"[[0.1, 0.2], [0.3]]", "row 1 has 1 numbers"),
        (b"[[0.1, NaN]]", "row 0 contains nan"),
        (b"[[0.1, Infinity]]", "row 0 contains inf"),
        (b"[[0.1, 1e999]]", "row 0 contains inf"),
        (b"[[0.1, true]]", "row 0 contains True"),
        (b'[[0.1, "2"]]', "row 0 contains 2"),
        (b"[]", "not an array of actions"),
        (b'{"action": []}', "not an array of actions"),
        (b"[[0.1, 0.2]", "not JSON"),
        (b"%PDF-1.7", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b" " * (SIZE_LIMIT + 1), "8.4 MB are allowed"),
    ],
    ids=range(13),
)
def test_bad_action_files_are_refused(tmp_path: Path, text: bytes, word: str) -> None:
    (tmp_path / "a.json").write_bytes(text)
    with pytest.raises(Failure, match=word) as refused:
        read_actions(tmp_path / "a.json", 2)
    assert refused.value.error.code == "InvalidInput" and refused.value.error.remedy
