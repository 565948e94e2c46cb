"""`containers/build.sh`, run with programs that stand in for Docker and AWS."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "containers" / "build.sh"
VARIABLES = {
    "IMAGE": "reasoner",
    "REPOSITORY": "123456789012.dkr.ecr.us-east-1.amazonaws.com/images/reasoner",
    "CACHE": "123456789012.dkr.ecr.us-east-1.amazonaws.com/layers",
    "TAG": "0123abcd",
    "MIRROR": "",
    "CUDA": "cu130",
}


class Builder:
    """Stubs that note their arguments and what they read."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.calls = folder, folder / "calls"
        self.stub("aws", 'case "$2" in get-login-password) echo hushed;; describe-images) exit 254;; esac')
        self.stub("docker", 'case "$1" in login) echo "read $(cat)" >> "$CALLS";; esac')

    def stub(self, name: str, body: str) -> None:
        path = self.folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> "$CALLS"\n{body}\n')
        path.chmod(0o755)

    def build(self, **variables: str) -> int:
        path = f"{self.folder}:{os.environ['PATH']}"
        environ = {**VARIABLES, **variables, "PATH": path, "CALLS": str(self.calls)}
        return subprocess.run(["bash", str(SCRIPT)], env=environ, capture_output=True, check=False).returncode

    @property
    def called(self) -> list[str]:
        return self.calls.read_text().splitlines()


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    return Builder(tmp_path)


def test_an_image_that_is_there_is_not_built(builder: Builder) -> None:
    builder.stub("aws", "")
    assert builder.build() == 0
    assert builder.called == ["aws ecr describe-images --repository-name images/reasoner --image-ids imageTag=0123abcd"]


def test_an_image_is_built_with_the_layers_of_the_last_build_and_pushed_under_its_tag(builder: Builder) -> None:
    assert builder.build() == 0
    build = builder.called[-1]
    for part in (
        "docker buildx build . --file containers/reasoner/Dockerfile",
        "--build-arg MIRROR= --build-arg CUDA=cu130",
        f"--cache-from type=registry,ref={VARIABLES['CACHE']}:layers",
        "--cache-to type=inline",
        f"--tag {VARIABLES['REPOSITORY']}:0123abcd --tag {VARIABLES['CACHE']}:layers --push",
    ):
        assert part in build


def test_nothing_but_the_base_comes_from_a_public_registry(builder: Builder) -> None:
    """A builder in a container of its own would be pulled from Docker Hub, which refuses anonymous builds."""
    builder.build()
    assert not any("buildx create" in line for line in builder.called)


def test_passwords_come_by_standard_input(builder: Builder) -> None:
    assert builder.build(DOCKER_HUB_USERNAME="me", DOCKER_HUB_PASSWORD="secret") == 0
    # The two programs of a pipe may begin in either order.
    assert "aws ecr get-login-password" in builder.called
    assert [line for line in builder.called if "docker login" in line or "read" in line] == [
        "docker login --username AWS --password-stdin 123456789012.dkr.ecr.us-east-1.amazonaws.com",
        "read hushed",
        "docker login --username me --password-stdin",
        "read secret",
    ]


def test_without_a_secret_docker_hub_is_read_by_nobody_in_particular(builder: Builder) -> None:
    builder.build()
    assert sum("docker login" in line for line in builder.called) == 1


@pytest.mark.parametrize("command", ["login", "buildx"])
def test_what_fails_fails_the_build(builder: Builder, command: str) -> None:
    builder.stub("docker", f'case "$1" in {command}) exit 1;; esac')
    assert builder.build() != 0


def test_the_script_is_clean() -> None:
    shellcheck = shutil.which("shellcheck", path=str(Path(sys.executable).parent))
    assert shellcheck is not None, "run scripts/setup.sh"
    answer = subprocess.run([shellcheck, str(SCRIPT)], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout
