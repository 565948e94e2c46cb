"""Ask the engines that need a GPU what they say of what we send them, and keep it as test data.

    .venv/bin/python scripts/argument_models.py [framework] [phyai] [--source FOLDER] [--python PYTHON]

It fetches each engine's repository at the commit that its image has, into a folder outside of this repository, and
installs there what its argument models import; both from the Internet, a gigabyte for torch. The engine's own classes
then read each case of `tests/engines/generator/argument_models/table.py`. Nothing is generated: that needs a GPU.
"""

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "tests" / "engines" / "generator" / "argument_models"


def main() -> None:
    """Write the record of each engine that is named, of both by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="*", default=["framework", "phyai"])
    parser.add_argument("--source", type=Path, help="A checkout that is there already")
    parser.add_argument("--python", type=Path, help="An interpreter that has all that the engine's models import")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    for name in options.engines:
        engine = importlib.import_module(f"tests.engines.generator.argument_models.{name}")
        with tempfile.TemporaryDirectory() as folder:
            source = options.source or fetched(engine.REPOSITORY, engine.COMMIT, Path(folder) / "source")
            python = options.python or environment(engine.PACKAGES, Path(folder) / "environment")
            engine.RECORD.write_text(written(verdicts_of(engine, name, source, python)), encoding="utf-8")
        print(f"wrote {engine.RECORD.relative_to(ROOT)}")


def fetched(repository: str, revision: str, folder: Path) -> Path:
    """Return a checkout of one commit."""
    url = f"https://github.com/{repository}.git"
    for command in (
        ["init", "--quiet", str(folder)],
        ["-C", str(folder), "fetch", "--quiet", "--depth", "1", url, revision],
        ["-C", str(folder), "checkout", "--quiet", "FETCH_HEAD"],
    ):
        subprocess.run(["git", *command], check=True)  # noqa: S607 - whichever a person has
    return folder


def environment(packages: tuple[str, ...], folder: Path) -> Path:
    """Return the interpreter of a virtual environment with these packages."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


def verdicts_of(engine: Any, name: str, source: Path, python: Path) -> dict[str, Any]:
    """Have the engine's own classes check each case, and return the record with their verdicts."""
    sent, spoiled = engine.sent(), engine.spoiled()
    order = {
        "source": str(source),
        "cases": {case: engine.question(case, content) for case, content in {**sent, **spoiled}.items()},
    }
    program = [str(python), str(MODELS / f"ask_{name}.py")]
    answer = json.loads(
        subprocess.run(program, input=json.dumps(order), stdout=subprocess.PIPE, text=True, check=True).stdout
    )
    verdicts = answer.pop("verdicts")
    return {
        "source": f"{engine.CLASSES} of github.com/{engine.REPOSITORY}",
        "commit": engine.COMMIT,
        "how": "scripts/argument_models.py: the engine's own classes, without a GPU and without a model",
        **answer,
        "accepted": {case: {"sent": sent[case], **verdict(verdicts[case], True)} for case in sent},
        "refused": {case: {"sent": spoiled[case], **verdict(verdicts[case], False)} for case in spoiled},
    }


def verdict(answer: dict[str, Any], expected: bool) -> dict[str, Any]:
    """Return a verdict without `accepted`. Raises SystemExit where that is not what the table expects."""
    if answer.pop("accepted") is not expected:
        raise SystemExit(f"{'refused' if expected else 'accepted'}, against what was expected: {answer}")
    return answer


def written(record: dict[str, Any]) -> str:
    """Return the record as JSON with one line for each case."""
    parts = []
    for name, value in record.items():
        if name in ("accepted", "refused"):
            lines = ",\n".join(f"  {json.dumps(case)}: {json.dumps(content)}" for case, content in value.items())
            parts.append(f"{json.dumps(name)}: {{\n{lines}\n }}")
        else:
            parts.append(f"{json.dumps(name)}: {json.dumps(value)}")
    return "{\n " + ",\n ".join(parts) + "\n}\n"


if __name__ == "__main__":
    main()
