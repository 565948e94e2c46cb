"""The wheel of the package."""

import shutil
import subprocess
from pathlib import Path
from zipfile import ZipFile

import uv

from cosmos_batch.console.built_page import PAGE
from tests.console.conftest import ROOT


def test_the_wheel_has_the_built_page_and_not_its_sources(tmp_path: Path) -> None:
    """Whoever installs it needs no Node."""
    context = tmp_path / "context"
    shutil.copytree(ROOT / "cosmos_batch" / "console", context / "cosmos_batch" / "console")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, context)
    command = [uv.find_uv_bin(), "build", "--wheel", str(context), "--out-dir", str(tmp_path)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    [wheel] = tmp_path.glob("*.whl")
    names = ZipFile(wheel).namelist()
    assert {f"cosmos_batch/console/static/{name}" for name, _ in PAGE.values()} <= set(names)
    assert not [name for name in names if name.startswith("cosmos_batch/console/page/")]
