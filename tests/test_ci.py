"""`.ci/run`: what makes it fail, with a Makefile of the test's own."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.real_vllm import WHY_SKIPPED

ROOT = Path(__file__).resolve().parent.parent
GOOD = "===== 2000 passed, 3 skipped in 700.00s (0:11:40) ====="
OMNI = "===== 20 passed, 1 warning in 80.50s ====="
SKIPPED = f"SKIPPED [30] tests/engines/reasoner/vllm/test_engine.py: {WHY_SKIPPED}"
OTHER = "SKIPPED [1] tests/local/test_mounts.py:20: no bubblewrap here"


@pytest.mark.parametrize(
    ("said", "test", "omni", "demo", "generate", "status", "last"),
    [
        ([OTHER, GOOD], 0, 0, 0, 0, 0, "2020 passed, 3 skipped, 1 warnings in 780.50s"),
        ([SKIPPED, GOOD], 0, 0, 0, 0, 1, "2020 passed, 3 skipped, 1 warnings in 780.50s"),
        (["=== 1 failed, 1999 passed in 700.00s ==="], 2, 0, 0, 0, 2, "1 failed, 2019 passed, 1 warnings in 780.50s"),
        ([GOOD], 0, 0, 0, 1, 2, "2020 passed, 3 skipped, 1 warnings in 780.50s"),
        ([GOOD], 0, 0, 1, 0, 2, "2020 passed, 3 skipped, 1 warnings in 780.50s"),
        ([GOOD], 0, 2, 0, 0, 2, "2000 passed, 3 skipped, 1 failed in 700.00s"),
        (["error: nothing was installed"], 2, 0, 0, 0, 2, "1 failed, 20 passed, 1 warnings in 80.50s"),
    ],
)
def test_what_makes_it_fail(
    tmp_path: Path, said: list[str], test: int, omni: int, demo: int, generate: int, status: int, last: str
) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "said").write_text("\n".join([*said, ""]))
    said_by_omni = f"echo {OMNI!r}" if not omni else "echo error: it is not installed"
    (tmp_path / "Makefile").write_text(
        f"test:\n\t@cat said; exit {test}\ntest-omni:\n\t@{said_by_omni}; exit {omni}\ndemo:\n\t@exit {demo}\n"
        f"demo-generate:\n\t@exit {generate}\n"
    )
    variables = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    ran = subprocess.run([tmp_path / ".ci" / "run"], capture_output=True, text=True, env=variables, check=False)
    assert ran.returncode == status, ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[-1] == f"===== {last} ====="
