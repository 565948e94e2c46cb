"""`docs/troubleshooting.md` quotes what our code says."""

import re
from pathlib import Path
from typing import get_args

import pytest

from cosmos_batch.contract.error import ErrorCode

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")][2:]
SYMPTOMS = ["memory", "Token", "Licence", "Cached", "EFS", "wait long", "CodeBuild", "429"]  # those of VAMS's page
OF_OTHERS = {"429 Too Many Requests"}  # Docker Hub's words


def source() -> str:
    """Our code, with strings that stand over several lines put together."""
    files = [path for room in ("cosmos_batch", "lambdas") for path in sorted((ROOT / room).rglob("*.py"))]
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(path.read_text(encoding="utf-8") for path in files))


def fragments() -> list[str]:
    quotes = [quote for row in ROWS for quote in re.findall(r'"([^"]+)"', row[1])]
    parts = [part.strip(" .") for quote in quotes if quote not in OF_OTHERS for part in quote.split("…")]
    return sorted({part for part in parts if part})


def test_every_symptom_of_the_seed_is_there() -> None:
    told = " ".join(row[0] for row in ROWS)
    assert not [symptom for symptom in SYMPTOMS if symptom not in told]
    assert len(ROWS) >= 15


@pytest.mark.parametrize("fragment", fragments())
def test_what_is_quoted_stands_in_the_code(fragment: str) -> None:
    assert fragment in source()


def test_every_code_that_is_named_is_one() -> None:
    named = {code for row in ROWS for code in re.findall(r"^`(\w+)`:", row[1])}
    assert named and named <= set(get_args(ErrorCode))
