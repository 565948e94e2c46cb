"""Broken files and unusual valid ones through the Transformers engine. For vLLM they are tested in one full batch."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cosmos_batch.contract.error import Failure
from tests.engines.conftest import Run
from tests.support import media_files


@pytest.mark.parametrize(("make", "word"), media_files.REFUSED.values(), ids=media_files.REFUSED)
def test_a_broken_file_is_refused_with_a_reason(
    run: Run, tmp_path: Path, make: Callable[[Path], Path], word: str
) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    with pytest.raises(Failure) as refused:
        run(make(folder))
    assert refused.value.error.code == "InvalidInput" and word in refused.value.error.message


@pytest.mark.parametrize("make", media_files.ODD.values(), ids=media_files.ODD)
def test_an_unusual_file_is_answered(run: Run, tmp_path: Path, make: Callable[[Path], Path]) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    assert run(make(folder)).usage.completion_tokens == 8


def test_a_video_of_ten_hours_is_answered_with_a_note_or_refused(run: Run, tmp_path: Path) -> None:
    path = media_files.ten_hours(tmp_path)
    sampled, leapt = sorted(run(path).notes, key=lambda note: "were not decoded" in note)
    assert sampled.startswith("36000.0 s of video at 4 frames a second are more than the")
    assert "between the frames that were seen, were not decoded" in leapt
    with pytest.raises(Failure) as refused:
        run(path, longVideo="refuse")
    assert refused.value.error.code == "InvalidInput"


def test_an_answer_ends_where_the_context_ends(run: Run, clip: Path) -> None:
    answer = run(clip, "robot " * 3900, maxTokens=32_768)
    assert answer.usage.prompt_tokens + answer.usage.completion_tokens <= 4096
