"""`cosmos-batch demo` gives a correct answer, and a picture with its boxes and times."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ORANGE = (255, 127, 14)  # of the first label, the red circle's


def shares(picture: np.ndarray, color: tuple[int, int, int]) -> np.ndarray:
    """Return the share of pixels with a color in each of 4 x 4 cells of a picture."""
    cells = np.abs(picture.astype(int) - color).max(axis=-1) < 30
    return np.array([[cell.mean() for cell in np.array_split(row, 4, axis=1)] for row in np.array_split(cells, 4)])


@pytest.mark.slow
@pytest.mark.timeout(900)  # a cloud, a model and four answers, beside whatever else the machine does
def test_the_demo_is_right_about_its_clip_and_draws_what_it_says(tmp_path: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    variables["COSMOS_BATCH_HOME"] = str(tmp_path / "home")
    command = [sys.executable, "-m", "cosmos_batch.cli", "demo"]
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert "a red circle moves to the right, then a blue square falls to the ground" in document["result"]
    assert "a small model that knows" in ended.stderr
    [shown] = re.findall(r"To look at it in the browser: \S*cosmos-batch view (\S+\.json)", ended.stderr)
    assert (Path(shown).parent / document["inputFile"]).is_file(), "the page finds the clip beside its document"
    [path] = re.findall(r"drawn on the file: (.*\.png)", ended.stderr)
    with Image.open(path) as sheet:
        picture = np.asarray(sheet.convert("RGB"))
    orange = shares(picture[60 : round(len(picture) * 0.88)], ORANGE)
    assert orange[0, 0] > 0, "a box on the first frame"
    assert orange[3, 3] > 0, "a box on the last frame"
    assert not orange[1:3].any(), "and none on the frames between"
    assert (shares(picture[round(len(picture) * 0.88) :], (255, 181, 120)) > 0).any(), "a bar on the timeline"
