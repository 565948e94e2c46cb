"""The pictures of the console in the documentation, as `make pictures` writes them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scripts.console_pictures import PICTURES, main
from tests.console.conftest import ROOT
from tests.support.browser import needs_chromium

VIEWS = ("compare", "grid", "item", "live", "new", "runs")


@needs_chromium
@pytest.mark.slow
def test_every_picture_can_be_taken_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    main(tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == set(VIEWS)
    for view in VIEWS:
        pixels = np.asarray(Image.open(tmp_path / f"{view}.png").convert("L"))
        assert (pixels < 128).mean() > 0.01, f"{view} is nearly empty"


def test_the_pictures_are_small_and_stand_in_the_documentation() -> None:
    sizes = {path.stem: path.stat().st_size for path in PICTURES.glob("*.png")}
    assert set(sizes) == set(VIEWS)
    assert max(sizes.values()) <= 150_000 and sum(sizes.values()) <= 800_000
    page, readme = (ROOT / "docs" / "console.md").read_text(), (ROOT / "README.md").read_text()
    assert all(f"(pictures/{view}.png)" in page for view in VIEWS)
    assert sum(f"(docs/pictures/{view}.png)" in readme for view in VIEWS) >= 5
