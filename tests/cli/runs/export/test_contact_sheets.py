"""A run of generators is exported as a contact sheet for each prompt, with every seed's image or frames."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.runs.export import contact_sheets
from cosmos_batch.contract.result import Output
from cosmos_batch.contract.runs import ResultLine
from cosmos_batch.demo.media import sample_clip
from tests.cli.runs.export.conftest import Export
from tests.support.run_objects import answered, failed

RED, GREEN, BLUE = (200, 0, 0), (0, 200, 0), (0, 0, 200)


def made(deployment: Deployment, item: str, prompt: str, file: Path) -> ResultLine:
    """Upload what an item made, and return its line."""
    deployment.clients("s3").upload_file(str(file), "assets", f"made/{item}{file.suffix}")
    files = [Output(uri=f"s3://assets/made/{item}{file.suffix}", size=1, content_type="image/png")]
    document = Output(uri=f"s3://assets/made/{item}.json", size=1, content_type="application/json")
    return answered(item, None, input=None, prompt=prompt, outputs=[document, *files])


def colored(path: Path, color: tuple[int, int, int]) -> Path:
    Image.new("RGB", (64, 48), color).save(path)
    return path


def area(sheet: Path, color: tuple[int, int, int]) -> int:
    """Return the pixels of a sheet that have a color."""
    return int((np.asarray(Image.open(sheet).convert("RGB")) == color).all(axis=-1).sum())


def test_each_prompt_has_a_sheet_with_what_every_seed_made(
    deployment: Deployment, export: Export, tmp_path: Path
) -> None:
    lines = [
        made(deployment, "rain#seed=1", "Rain.", colored(tmp_path / "1.png", RED)),
        made(deployment, "snow#seed=1", "Snow.", colored(tmp_path / "2.png", BLUE)),
        made(deployment, "rain#seed=2", "Rain.", colored(tmp_path / "3.png", GREEN)),
        failed("snow#seed=2"),
    ]
    path, notes = export("sheets", lines)
    first, second = sorted(path.iterdir())
    assert (first.name, second.name) == ("prompt-0001.png", "prompt-0002.png") and notes[0] == "2 prompts"
    assert area(first, RED) > 10_000 and area(first, GREEN) > 10_000 and not area(first, BLUE)
    assert area(second, BLUE) > 10_000 and not area(second, RED)


def test_a_video_is_shown_by_three_frames(deployment: Deployment, export: Export, tmp_path: Path) -> None:
    path, _ = export("sheets", [made(deployment, "clip", "A cube.", sample_clip(tmp_path / "clip.mp4"))])
    [sheet] = path.iterdir()
    width, height = Image.open(sheet).size
    assert width / height > 2, "the frames stand side by side"


def test_more_files_than_a_page_holds_are_on_further_pages_and_damaged_ones_are_counted(
    deployment: Deployment, export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contact_sheets, "TILES_LIMIT", 2)
    good = colored(tmp_path / "a.png", RED)
    (tmp_path / "bad.png").write_bytes(b"no picture")
    lines = [made(deployment, f"a#seed={seed}", "A.", good) for seed in range(3)]
    lines.append(made(deployment, "a#seed=bad", "A.", tmp_path / "bad.png"))
    lines.append(answered("gone", None, prompt="A.", outputs=[
        Output(uri="s3://assets/made/none.png", size=1, content_type="image/png")
    ]))  # fmt: skip
    path, notes = export("sheets", lines)
    assert sorted(one.name for one in path.iterdir()) == ["prompt-0001-2.png", "prompt-0001.png"]
    assert "2 files left out" in notes[1]
