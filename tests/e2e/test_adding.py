"""Following the checklists of `docs/architecture.md` in a copy of this repository.

An engine, a parameter and an instance type are added by the files that the page names and by no other; the copy then
answers with the engine, knows the parameter wherever a caller can set one, and deploys onto the instance type, which
is also made a default fallback of a pipeline.
"""

import json
import os
import re
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.timeout(900)  # a cloud is started and deployed to, beside whatever else the machine does

REGISTRY, ENGINE = "cosmos_batch/catalogue/engines.py", "cosmos_batch/engines/reasoner/echo.py"
PARAMETERS, OPTIONS = "cosmos_batch/contract/parameters.py", "cosmos_batch/cli/options.py"
HARDWARE, PIPELINES = "cosmos_batch/catalogue/hardware.py", "cosmos_batch/catalogue/pipelines.py"

ROW = """
    RegisteredEngine(
        name="echo",
        title="Echo",
        surface="reasoner",
        image="reasoner",
        class_path="cosmos_batch.engines.reasoner.echo:EchoEngine",
    ),
"""
MODULE = '''
"""Answers every question by repeating it."""

from pathlib import Path

from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer, Usage


class EchoEngine:
    """Repeats the prompt as often as `echoes` says."""

    name = "echo 1"
    concurrency = 4

    def __init__(self) -> None:
        self.startup_logs: list[str] = []

    def load(self, model_dir: Path, context: int | None = None) -> None:
        """Load nothing."""

    async def run(self, job: Job, workdir: Path) -> Answer:
        """Repeat the prompt."""
        text = " ".join([str(job.prompt)] * (job.parameters.echoes or 1))
        usage = Usage(prompt_tokens=1, completion_tokens=1)
        return Answer(text=text, finish_reason="stop", usage=usage, timings={}, logs=[])

    def close(self) -> None:
        """Free nothing."""
'''
FIELD = """
    echoes: int | None = Field(default=None, ge=1, le=9, description="How often the answer repeats the prompt")
"""
OPTION = """
    ("echoes", "N", "Repeat the prompt so often."),
"""
INSTANCE_TYPE = """
    "g6e.8xlarge": InstanceType("L40S", 1, 32, 256, 4.529),
"""
FALLBACK = """
        fallback_instance_types=("g6e.8xlarge",),
"""


def insert(file: Path, anchor: str, lines: str) -> None:
    """Insert lines behind the one line of a file that is the anchor."""
    text = file.read_text(encoding="utf-8")
    assert text.count(anchor) == 1, f"{file} has {anchor!r} {text.count(anchor)} times"
    file.write_text(text.replace(anchor, anchor + lines.lstrip("\n")), encoding="utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a copy of the files in Git, to which an engine, a parameter and an instance type are added."""
    folder = tmp_path_factory.mktemp("copy") / "repository"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in listed.stdout.decode().split("\0"):
        if name and not name.startswith(("tests/", "benchmarks/")) and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    if (ROOT / "build").exists():  # the wheels of the Lambda layer, which would be fetched again
        (folder / "build").symlink_to(ROOT / "build")
    insert(folder / REGISTRY, "_ROWS = (\n", ROW)
    (folder / ENGINE).write_text(MODULE.lstrip(), encoding="utf-8")
    insert(folder / PARAMETERS, "class Parameters(Model):\n", "    # The new field.\n" + FIELD.lstrip("\n"))
    insert(folder / OPTIONS, "REASONER_OPTIONS = (\n", OPTION)
    insert(folder / HARDWARE, "INSTANCE_TYPES = {\n", INSTANCE_TYPE)
    insert(folder / PIPELINES, '        model="nvidia/Cosmos-Reason2-2B",\n', FALLBACK)
    model = folder.parent / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    entry = {"enabled": True, "engine": "echo", "model": str(model)}
    block = {"enabled": True, "useCodeBuild": False, "modelsReason": {"reason2B": entry}}
    (folder / "config.json").write_text(json.dumps({"app": {"pipelines": {"useNvidiaCosmos": block}}}))
    make_environment(folder)
    return folder


def make_environment(copy: Path) -> None:
    """Make a virtual environment beside the copy that has the copy first and then all that is installed here.

    Workers and functions start with an environment of their own, so that a `PYTHONPATH` would not reach them.
    """
    environment = copy.parent / "environment"
    venv.create(environment, symlinks=True)
    [packages] = (environment / "lib").glob("python*/site-packages")
    (packages / "copy.pth").write_text(f"{copy}\n{sysconfig.get_path('purelib')}\n", encoding="utf-8")


def run(copy: Path, *arguments: str) -> str:
    """Run Python in the environment of the copy; returns what it prints."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    variables["COSMOS_BATCH_HOME"] = str(copy.parent / "home")
    command = [str(copy.parent / "environment" / "bin" / "python"), *arguments]
    ended = subprocess.run(command, cwd=copy, env=variables, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def checklist(title: str) -> str:
    """Return the section of the page with this title."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return page.split(f"## {title}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize(
    ("title", "files"),
    [
        ("To add a reasoner engine", [REGISTRY, ENGINE]),
        ("To add a parameter or metadata key that a caller can set", [PARAMETERS, OPTIONS]),
        ("To add an instance type", [HARDWARE, PIPELINES]),
    ],
)
def test_each_file_that_had_to_be_changed_is_in_its_checklist(title: str, files: list[str]) -> None:
    named = re.findall(r"`([\w./-]+)`", checklist(title))
    for file in files:
        assert any(file == name or (name.endswith("/") and file.startswith(name)) for name in named), file


@pytest.mark.slow
def test_the_new_engine_answers_with_the_new_parameter(copy: Path, picture: Path) -> None:
    answer = run(copy, "-m", "cosmos_batch.cli", "run", str(picture), "--prompt", "Ahoy", "--echoes", "3")
    document = json.loads(answer)
    assert (document["result"], document["engine"]) == ("Ahoy Ahoy Ahoy", "echo 1")
    assert document["parameters"]["echoes"] == 3


def test_the_new_parameter_has_a_metadata_key_and_stands_in_the_pages(copy: Path) -> None:
    run(copy, "scripts/metadata_reference.py")
    run(copy, "scripts/reasoner_reference.py")
    assert "| `COSMOS_REASON_ECHOES` | `echoes` |" in (copy / "docs" / "metadata.md").read_text(encoding="utf-8")
    assert "| `echoes` |" in (copy / "docs" / "reasoner.md").read_text(encoding="utf-8")


def test_the_new_instance_type_is_a_fallback_onto_which_workers_are_deployed(copy: Path) -> None:
    run(copy, "app.py")
    [template] = (copy / "cdk.out").glob("*-Pipelines.template.json")
    resources = json.loads(template.read_text(encoding="utf-8"))["Resources"].values()
    environments = [resource for resource in resources if resource["Type"] == "AWS::Batch::ComputeEnvironment"]
    types = [environment["Properties"]["ComputeResources"]["InstanceTypes"] for environment in environments]
    assert types == [["g6e.2xlarge"], ["g6e.4xlarge"], ["g6e.8xlarge"]]
