"""The directory of every accepted model id is inside of the store's root."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.contract.error import Failure
from cosmos_batch.store.model_ids import directory_name

PART = st.from_regex(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,20}[A-Za-z0-9_])?", fullmatch=True)
HOSTILE_ALPHABET = st.text(alphabet="ab/.-_~\\\0\n %ä", max_size=12)


def accepted(model: str) -> str | None:
    try:
        return directory_name(model)
    except Failure as failure:
        assert failure.error.code == "ModelUnavailable"
        assert failure.error.remedy
        return None


@given(HOSTILE_ALPHABET | st.text())
def test_every_accepted_id_is_directly_below_the_root(model: str) -> None:
    name = accepted(model)
    if name is not None:
        assert (Path("/efs") / name).resolve().parent == Path("/efs")
        assert not name.startswith(".")
        assert name.isascii() and name.isprintable()


@given(st.tuples(PART, PART), st.tuples(PART, PART))
def test_two_models_never_share_a_directory(one: tuple[str, str], other: tuple[str, str]) -> None:
    names = {accepted("/".join(model)) for model in (one, other)} - {None}
    valid = {model for model in (one, other) if accepted("/".join(model))}
    assert len(names) == len(valid)


@pytest.mark.parametrize("model", ["nvidia/Cosmos-Reason2-2B", "a/b", "Qwen/Qwen2.5-VL-7B-Instruct", "o_o/_x_"])
def test_ids_of_the_hub_are_accepted(model: str) -> None:
    assert directory_name(model) == model.replace("/", "--")


@pytest.mark.parametrize(
    "model",
    [
        "", "x", "../x", "x/..", "./x", "a/b/c", "/etc/passwd", "a//b", "a/b/", "a/b\n", "a /b", "a--b/c", "a/b--c",
        "-a/b", "a-/b", "a/b.", "a/.b", "a/b..c", "a/b.git", "a\\b/c", "a/b\0", "ä/b", "a/" + "b" * 95,
    ],
)  # fmt: skip
def test_hostile_ids_are_refused(model: str) -> None:
    with pytest.raises(Failure) as caught:
        directory_name(model)
    assert caught.value.error.code == "ModelUnavailable"
