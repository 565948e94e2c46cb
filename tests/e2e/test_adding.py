"""The checklists of `docs/architecture.md` are followed in a copy of this repository.

An engine, a parameter, a metadata key, an instance type and a pipeline are added by the files that the page names and
by no other. The copy then answers with the engine, knows the parameter wherever a caller can set one, reads the
metadata key, and deploys the pipeline and the instance type, which is also made a default fallback of a pipeline.
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
METADATA, INTAKE = "cosmos_batch/contract/metadata.py", "lambdas/intake/metadata.py"
METADATA_PAGE = "scripts/metadata_reference.py"
HARDWARE, PIPELINES = "cosmos_batch/catalogue/hardware.py", "cosmos_batch/catalogue/pipelines.py"
ENTRIES = "cosmos_batch/contract/entries.py"

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
KEY = """
LABEL = "COSMOS_REASON_LABEL"
"""
READING = """
        label=_first(sources, LABEL),
"""
DESCRIPTION = """
    metadata.LABEL: "A label for people",
"""
PIPELINE = """
    Pipeline(
        id="my-reason-1b",
        config_key="reason1B",
        surface="reasoner",
        model="my/Reason-1B",
        model_size="1B",
        min_gpu_memory_gb=24,
        min_memory_gib=16,
        gpus_per_worker=1,
        instance_types=("g6e.8xlarge",),
        h100_seconds=0.05,
        context=REASONER_CONTEXT,
    ),
"""
ENTRY = """
    reason_1b: ReasonerEntry = Field(default_factory=ReasonerEntry, alias="reason1B", description="My reasoner")
"""
READ_METADATA = """
import os

os.environ |= {"AWS_DEFAULT_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"}

import boto3
from moto import mock_aws

from cosmos_batch.contract.s3 import S3Location
from lambdas.intake.metadata import read_metadata
from lambdas.s3_objects import head

with mock_aws():
    boto3.client("s3").create_bucket(Bucket="assets")
    boto3.client("s3").put_object(Bucket="assets", Key="a.mp4", Metadata={"cosmos-reason-label": "dock 7"})
    metadata = read_metadata(head(S3Location("assets", "a.mp4")))
    print(metadata.label, metadata.faults)
"""
SYNTHESIZE = """
import sys
from pathlib import Path

from cosmos_batch.planning.configuration import load_config
from infra.synth import synthesize

synthesize(load_config(Path(sys.argv[1])), Path(sys.argv[2]))
"""


def insert(file: Path, anchor: str, lines: str) -> None:
    """Insert lines behind the one line of a file that is the anchor."""
    text = file.read_text(encoding="utf-8")
    assert text.count(anchor) == 1, f"{file} has {anchor!r} {text.count(anchor)} times"
    file.write_text(text.replace(anchor, anchor + lines.lstrip("\n")), encoding="utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a copy of the files in Git, to which one thing of each kind is added."""
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
    insert(folder / PIPELINES, "PIPELINES = (\n", PIPELINE)
    insert(folder / ENTRIES, '    surface = "reasoner"\n', ENTRY)
    insert(folder / METADATA, 'PIPELINE = "COSMOS_PIPELINE"\n', KEY)
    insert(folder / INTAKE, "from cosmos_batch.contract.metadata import (\n", "    LABEL,\n")
    insert(folder / INTAKE, "_KNOWN_KEYS = {", "LABEL, ")
    insert(folder / INTAKE, "    faults: list[str] = field(default_factory=list)\n", "    label: str | None = None\n")
    insert(folder / INTAKE, "        pipeline=_first(sources, PIPELINE),\n", READING)
    insert(folder / METADATA_PAGE, "_REASONER_KEYS = {\n", DESCRIPTION)
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
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHONPATH"))}
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
        ("To add an engine", [REGISTRY, ENGINE]),
        ("To add a parameter that a caller can set, with its metadata key", [PARAMETERS, OPTIONS]),
        ("To add a metadata key that sets no parameter", [METADATA, INTAKE, METADATA_PAGE]),
        ("To add an instance type", [HARDWARE, PIPELINES]),
        ("To add a pipeline", [PIPELINES, ENTRIES]),
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


def test_the_new_engine_is_described_on_the_page_of_configuration(copy: Path) -> None:
    run(copy, "scripts/configuration_reference.py")
    assert "; 'echo', 'vllm', " in (copy / "docs" / "configuration.md").read_text(encoding="utf-8")


def test_the_new_metadata_key_is_read_and_stands_in_the_page(copy: Path) -> None:
    assert run(copy, "-c", READ_METADATA) == "dock 7 []\n"
    run(copy, "scripts/metadata_reference.py")
    page = (copy / "docs" / "metadata.md").read_text(encoding="utf-8")
    assert "| `COSMOS_REASON_LABEL` |  | text | A label for people |" in page


def test_the_new_pipeline_is_deployed(copy: Path, tmp_path: Path) -> None:
    models = {"reason1B": {"enabled": True, "model": str(copy.parent / "model")}}
    block = {"enabled": True, "useCodeBuild": False, "modelsReason": models}
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"app": {"pipelines": {"useNvidiaCosmos": block}}}))
    run(copy, "-c", SYNTHESIZE, str(config), str(tmp_path / "cdk.out"))
    [template] = (tmp_path / "cdk.out").glob("*-Pipelines.template.json")
    text = template.read_text(encoding="utf-8")
    assert "my-reason-1b" in text and "cosmos-reason2-2b" not in text


def test_the_new_instance_type_is_a_fallback_onto_which_workers_are_deployed(copy: Path) -> None:
    run(copy, "app.py")
    [template] = (copy / "cdk.out").glob("*-Pipelines.template.json")
    resources = json.loads(template.read_text(encoding="utf-8"))["Resources"].values()
    environments = [resource for resource in resources if resource["Type"] == "AWS::Batch::ComputeEnvironment"]
    types = [environment["Properties"]["ComputeResources"]["InstanceTypes"] for environment in environments]
    assert types == [["g6e.2xlarge"], ["g6e.4xlarge"], ["g6e.8xlarge"]]
