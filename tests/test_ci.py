"""`.ci/run`: what makes it fail, with a Makefile of the test's own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.console.conftest import WHY_NOT_BUILT
from tests.support.browser import WHY_SKIPPED as WHY_NO_BROWSER
from tests.support.real_vllm import WHY_SKIPPED

ROOT = Path(__file__).resolve().parent.parent
GOOD = "===== 2000 passed, 3 skipped in 700.00s (0:11:40) ====="
OMNI = "===== 20 passed, 1 warning in 80.50s ====="
SKIPPED = f"SKIPPED [30] tests/engines/reasoner/vllm/test_engine.py: {WHY_SKIPPED}"
PAGE = f"SKIPPED [14] tests/console/test_browser.py: {WHY_NO_BROWSER}"
BUILD = f"SKIPPED [3] tests/console/test_browser.py:9: {WHY_NOT_BUILT}"
OTHER = "SKIPPED [1] tests/local/test_mounts.py:20: no bubblewrap here"
SUMMARY = "=== short test summary info ==="


def run_with(directory: Path, makefile: str, limit: int = 4200) -> subprocess.CompletedProcess[str]:
    """Run `.ci/run` in a directory with this text as its Makefile, with a limit for the tests in seconds."""
    script = (ROOT / ".ci" / "run").read_text()
    assert "\nLIMIT=4200 " in script
    (directory / ".ci").mkdir()
    (directory / ".ci" / "run").write_text(script.replace("\nLIMIT=4200 ", f"\nLIMIT={limit} "))
    (directory / "Makefile").write_text(makefile)
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PYTEST"))}
    return subprocess.run(
        ["bash", directory / ".ci" / "run"], capture_output=True, text=True, env=variables, check=False
    )


@pytest.mark.parametrize(
    ("said", "test", "omni", "demo", "generate", "status", "last"),
    [
        ([OTHER, GOOD], 0, 0, 0, 0, 0, "2020 passed, 3 skipped, 1 warnings in 780.50s"),
        ([PAGE, GOOD], 0, 0, 0, 0, 1, "2020 passed, 3 skipped, 1 warnings in 780.50s"),
        ([BUILD, GOOD], 0, 0, 0, 0, 1, "2020 passed, 3 skipped, 1 warnings in 780.50s"),
        ([SKIPPED, GOOD], 0, 0, 0, 0, 1, "2020 passed, 3 skipped, 1 warnings in 780.50s"),
        (["=== 1 failed, 1999 passed in 700.00s ==="], 2, 0, 0, 0, 2, "1 failed, 2019 passed, 1 warnings in 780.50s"),
        ([GOOD], 0, 0, 0, 1, 2, "2020 passed, 3 skipped, 1 warnings in 780.50s"),
        ([GOOD], 0, 0, 1, 0, 2, "2020 passed, 3 skipped, 1 warnings in 780.50s"),
        ([GOOD], 0, 2, 0, 0, 2, "2000 passed, 3 skipped, 1 failed in 700.00s"),
        ([GOOD], 1, 0, 0, 0, 2, "2020 passed, 3 skipped, 1 failed, 1 warnings in 780.50s"),
        (["error: nothing was installed"], 2, 0, 0, 0, 2, "1 failed, 20 passed, 1 warnings in 80.50s"),
    ],
)
def test_each_failed_step_makes_the_whole_run_fail(
    tmp_path: Path, said: list[str], test: int, omni: int, demo: int, generate: int, status: int, last: str
) -> None:
    (tmp_path / "said").write_text("\n".join([*said, ""]))
    said_by_omni = f"echo {OMNI!r}" if not omni else "echo error: it is not installed"
    ran = run_with(
        tmp_path,
        f"test-all:\n\t@cat said; exit {test}\ntest-omni:\n\t@{said_by_omni}; exit {omni}\ndemo:\n\t@exit {demo}\n"
        f"demo-generate:\n\t@exit {generate}\n",
    )
    assert ran.returncode == status, ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[-1] == f"===== {last} ====="


FAILURES = ["FAILED t.py::a[x y] - AssertionError: 1 - 2", "ERROR t.py::b - OSError"]
TRIED = ["PASSED t.py::a[x y]", "PASSED t.py::b"]
MANY = [f"FAILED t.py::test_{number}" for number in range(21)]


@pytest.mark.parametrize(
    ("first", "first_status", "second", "second_status", "status", "last", "named"),
    [
        pytest.param(
            [SUMMARY, *FAILURES, "1 failed, 1998 passed, 3 skipped, 1 error in 700.00s"],
            1,
            [SUMMARY, *TRIED, "2 passed, 40 deselected in 9.50s"],
            0,
            2,
            "1 failed, 2018 passed, 3 skipped, 1 errors in 709.50s",
            ["failed beside the others, passed alone: t.py::a[x y]", "failed beside the others, passed alone: t.py::b"],
            id="all-pass-alone",
        ),
        pytest.param(
            [SUMMARY, *FAILURES, "1 failed, 1998 passed, 1 error in 700.00s"],
            1,
            [SUMMARY, TRIED[1], FAILURES[0], "1 failed, 1 passed in 9.50s"],
            1,
            2,
            "1 failed, 2018 passed, 1 errors in 709.50s",
            ["failed beside the others, passed alone: t.py::b", "failed beside the others, failed alone: t.py::a[x y]"],
            id="fails-again",
        ),
        pytest.param(
            [SUMMARY, *FAILURES, "1 failed, 1998 passed, 1 error in 700.00s"],
            1,
            [SUMMARY, TRIED[0], "SKIPPED [1] t.py: why", "1 passed, 1 skipped in 9.50s"],
            0,
            2,
            "1 failed, 2018 passed, 1 errors in 709.50s",
            ["failed beside the others, passed alone: t.py::a[x y]", "failed beside the others, failed alone: t.py::b"],
            id="skipped-the-second-time",
        ),
        pytest.param(
            [SUMMARY, *FAILURES, "1 failed, 1998 passed, 1 error in 700.00s"],
            1,
            [SUMMARY, *TRIED, "ERROR t.py::b - OSError", "2 passed, 1 error in 9.50s"],
            1,
            2,
            "1 failed, 2018 passed, 1 errors in 709.50s",
            ["failed beside the others, passed alone: t.py::a[x y]", "failed beside the others, passed alone: t.py::b"],
            id="error-after-passing",
        ),
        pytest.param(
            [SUMMARY, *FAILURES, "1 failed, 1998 passed, 1 error in 700.00s"],
            1,
            ["No module named pytest"],
            1,
            2,
            "1 failed, 2018 passed, 1 errors in 700.00s",
            ["failed beside the others, failed alone: t.py::a[x y]", "failed beside the others, failed alone: t.py::b"],
            id="second-try-does-not-start",
        ),
        pytest.param(
            [SUMMARY, *MANY, "21 failed, 1979 passed in 700.00s"],
            1,
            None,
            0,
            2,
            "21 failed, 1999 passed in 700.00s",
            [],
            id="too-many",
        ),
        pytest.param(
            ["__ ERROR at teardown of b __", SUMMARY, *FAILURES, "1 failed, 1999 passed, 1 error in 700.00s"],
            1,
            None,
            0,
            2,
            "1 failed, 2019 passed, 1 errors in 700.00s",
            [],
            id="teardown",
        ),
        pytest.param(
            [SUMMARY, *FAILURES, "!!! KeyboardInterrupt !!!", "1 failed, 900 passed, 1 error in 4200.00s"],
            124,
            None,
            0,
            2,
            "1 failed, 920 passed, 1 errors in 4200.00s",
            [],
            id="interrupted-with-failures",
        ),
        pytest.param(
            ["!!! KeyboardInterrupt !!!", "900 passed in 4200.00s"],
            124,
            None,
            0,
            2,
            "920 passed, 1 failed in 4200.00s",
            [],
            id="interrupted-without-failures",
        ),
        pytest.param(
            ["FAILED is a word that the log of a passing test may have", "2000 passed in 700.00s"],
            0,
            None,
            0,
            0,
            "2020 passed in 700.00s",
            [],
            id="nothing-failed",
        ),
    ],
)
def test_tests_that_failed_beside_the_others_run_once_more_alone_and_stay_failed(
    tmp_path: Path,
    first: list[str],
    first_status: int,
    second: list[str] | None,
    second_status: int,
    status: int,
    last: str,
    named: list[str],
) -> None:
    (tmp_path / "first").write_text("\n".join([*first, ""]))
    (tmp_path / "second").write_text("\n".join([*(second or []), ""]))
    ran = run_with(
        tmp_path,
        f"test-all:\n\t@cat first; exit {first_status}\n"
        f"test-again:\n\t@echo again >>tried; cat second; exit {second_status}\n"
        "test-omni:\n\t@echo 20 passed in 0s\ndemo demo-generate:\n\t@:\n",
    )
    assert ran.returncode == status, ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[-1] == f"===== {last} ====="
    assert [line for line in ran.stdout.splitlines() if line.startswith("failed beside")] == named
    tries = (tmp_path / "tried").read_text() if (tmp_path / "tried").exists() else ""
    assert tries == ("again\n" if second else "")


def test_make_runs_failed_tests_again_alone(tmp_path: Path) -> None:
    """Two tests fail beside others, as in the real `make test-all`, and pass alone, as in `make test-again`."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_busy.py").write_text(
        "import os, pytest\n\n@pytest.mark.parametrize('x', ['a b', 'c'])\ndef test_load(x):\n"
        "    assert 'PYTEST_XDIST_WORKER' not in os.environ\n\ndef test_other():\n    pass\n"
    )
    makefile = (ROOT / "Makefile").read_text().replace("BIN := .venv/bin", f"BIN := {Path(sys.executable).parent}")
    rules = [
        rule
        for rule in makefile.split("\n\n")
        if "BIN :=" in rule or "PYTEST :=" in rule or rule.startswith(("test-all: ", "test-again: "))
    ]
    ran = run_with(
        tmp_path,
        "\n\n".join([*rules, "lint $(VLLM) $(INSTALLED) chromium demo demo-generate:\n\t@:"])
        + "\n\ntest-omni:\n\t@echo 1 passed in 0s\n",
    )
    assert ran.returncode == 2, ran.stdout + ran.stderr
    *_, first, second, last = ran.stdout.splitlines()
    assert first == "failed beside the others, passed alone: tests/test_busy.py::test_load[a b]"
    assert second == "failed beside the others, passed alone: tests/test_busy.py::test_load[c]"
    assert last.startswith("===== 2 failed, 2 passed in ")


def test_tests_that_take_too_long_are_interrupted_and_report_what_they_have(tmp_path: Path) -> None:
    (tmp_path / "test_slow.py").write_text("import time\n\ndef test():\n    time.sleep(600)\n")
    ran = run_with(
        tmp_path,
        f"test-all:\n\t@$(TIME_LIMIT) {sys.executable} -m pytest -q -n 1 test_slow.py\n"
        "test-omni:\n\t@echo 20 passed in 0s\ndemo demo-generate:\n\t@:\n",
        limit=5,
    )
    assert ran.returncode == 2, ran.stdout + ran.stderr
    assert "KeyboardInterrupt" in ran.stdout
    assert ran.stdout.splitlines()[-1].startswith("===== 1 failed, 20 passed in ")


def test_the_fast_tests_start_no_cloud_and_open_no_browser() -> None:
    printed = subprocess.run(["make", "-n", "test-quick"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    ignored = [ROOT / name for name in re.findall(r"--ignore (\S+)", printed)]
    assert len(ignored) > 5 and all(path.exists() for path in ignored)
    slow_starts = re.compile(r"\b(chromium|running_app|start_local_cloud|LocalCloud\.start)\(|@needs_chromium")
    left = [*ignored, ROOT / "tests" / "support", ROOT / "tests" / "omni", Path(__file__)]
    for path in (ROOT / "tests").rglob("*.py"):
        if not any(path.is_relative_to(other) for other in left):
            assert not slow_starts.search(path.read_text(encoding="utf-8")), f"{path} belongs into NOT_FAST"
