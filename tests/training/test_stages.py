"""The command that makes the checkpoint from nothing."""

from pathlib import Path

import pytest

from training import stages
from training.stages import STAGES, run_stages


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, Path | None, int]]:
    """Provide the list of trainings (folder, start, seed) that were run; each writes its weights."""
    runs: list[tuple[Path, Path | None, int]] = []

    def train(out: Path, start: Path | None, minutes: float, rate: float, seed: int, *_: object) -> None:
        runs.append((out, start, seed))
        out.mkdir(parents=True)
        (out / "model.safetensors").touch()

    monkeypatch.setattr(stages, "train", train)
    return runs


def test_the_first_stage_starts_from_nothing_and_each_other_stage_from_the_stage_before(
    trained: list[tuple[Path, Path | None, int]], tmp_path: Path
) -> None:
    last = run_stages(tmp_path, 1, 1500, False)

    folders = [tmp_path / f"stage{number}" for number in range(1, len(STAGES) + 1)]
    assert [(out, start) for out, start, _ in trained] == list(zip(folders, [None, *folders], strict=False))
    assert last == folders[-1]
    seeds = [seed for _, _, seed in trained]
    assert len(set(seeds)) == len(seeds), "stages that draw the same clips learn less"


def test_a_stage_that_is_done_is_not_run_again(trained: list[tuple[Path, Path | None, int]], tmp_path: Path) -> None:
    (tmp_path / "stage1").mkdir()
    (tmp_path / "stage1" / "model.safetensors").touch()
    run_stages(tmp_path, 1, 1500, False)

    assert trained[0][1] == tmp_path / "stage1"
    assert len(trained) == len(STAGES) - 1
