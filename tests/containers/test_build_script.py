"""`containers/build.sh`, run with programs that stand in for Docker and AWS."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "containers" / "build.sh"
REGISTRY = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
VARIABLES = {
    "IMAGE": "reasoner",
    "REPOSITORY": f"{REGISTRY}/images/reasoner",
    "CACHE": f"{REGISTRY}/layers",
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


def test_an_image_that_is_in_the_registry_is_not_built_again(builder: Builder) -> None:
    builder.stub("aws", "")
    assert builder.build() == 0
    assert builder.called == ["aws ecr describe-images --repository-name images/reasoner --image-ids imageTag=0123abcd"]


CACHE = VARIABLES["CACHE"]
# `docker login` reads all of it; a stub that does not may end the program that writes it.
READ_PASSWORD = 'if [ "$1" = login ]; then cat > /dev/null; fi'
KEPT = "image-manifest=true,compression=zstd,force-compression=true,oci-mediatypes=true"


@pytest.mark.parametrize(("image", "stages"), [("reasoner", ["base", "packages"]),
                                               ("framework", ["uv", "base", "weights", "packages"])])  # fmt: skip
def test_each_stage_is_built_and_its_layers_are_kept_before_the_next_begins(
    builder: Builder, image: str, stages: list[str]
) -> None:
    """A build that is cut off goes on with the stage in which it was."""
    assert builder.build(IMAGE=image) == 0
    builds = [line for line in builder.called if line.startswith("docker buildx build")]
    assert len(builds) == len(stages) + 1
    for stage, build in zip(stages, builds[:-1], strict=True):
        assert f"--target {stage} --output type=cacheonly" in build
        assert f"--cache-to type=registry,ref={CACHE}:stage-{stage},mode=max,{KEPT}" in build
    for build in builds:
        assert f"docker buildx build . --file containers/{image}/Dockerfile" in build
        assert "--build-arg MIRROR= --build-arg CUDA=cu130" in build
        assert all(f"--cache-from type=registry,ref={CACHE}:stage-{stage}" in build for stage in stages)


def test_the_image_is_pushed_under_its_tag_with_layers_of_zstd(builder: Builder) -> None:
    assert builder.build() == 0
    image = f"--output type=image,name={VARIABLES['REPOSITORY']}:0123abcd,push=true,compression=zstd,"
    assert image in builder.called[-1] and "--target" not in builder.called[-1]


def test_a_build_that_is_cut_off_has_kept_the_stages_before(builder: Builder) -> None:
    builder.stub("docker", f'{READ_PASSWORD}; case "$*" in *"--target packages"*) exit 1;; esac')
    assert builder.build() != 0
    kept = [line for line in builder.called if "--cache-to" in line]
    assert "--target base" in kept[0] and "--target packages" in kept[-1]
    assert not any("push=true" in line for line in builder.called)


def test_the_builder_comes_from_docker_hub_once_by_its_digest_and_from_our_repository_after_that(
    builder: Builder,
) -> None:
    builder.stub("docker", f'{READ_PASSWORD}; case "$1 $2" in "pull {CACHE}:buildkit-"*) exit 1;; esac')
    assert builder.build(MIRROR="mirror.example/hub/") == 0
    pulls = [line for line in builder.called if line.startswith(("docker pull", "docker push"))]
    assert pulls[0].startswith(f"docker pull {CACHE}:buildkit-")
    assert re.match(r"docker pull mirror\.example/hub/moby/buildkit:v[\d.]+@sha256:[0-9a-f]{64}$", pulls[1])
    assert pulls[2] == pulls[0].replace("pull", "push")
    builder.calls.unlink()
    builder.stub("docker", READ_PASSWORD)
    assert builder.build() == 0
    (pull,) = [line for line in builder.called if "docker pull" in line]
    ours = pull.removeprefix("docker pull ")
    assert f"docker buildx create --use --driver docker-container --driver-opt image={ours}" in builder.called


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


@pytest.mark.parametrize(
    ("mirror", "logged_in"),
    [
        ("210987654321.dkr.ecr.eu-west-1.amazonaws.com/hub/", ["eu-west-1"]),
        ("123456789012.dkr.ecr.us-east-1.amazonaws.com/hub/", []),  # the registry of our own images
        ("mirror.example/hub/", []),
    ],
)
def test_another_registry_of_ecr_is_logged_in_to_before_it_is_asked_for_images(
    builder: Builder, mirror: str, logged_in: list[str]
) -> None:
    assert builder.build(MIRROR=mirror) == 0
    passwords = [line for line in builder.called if line.startswith("aws ecr get-login-password --region")]
    assert passwords == [f"aws ecr get-login-password --region {region}" for region in logged_in]
    logins = [line.rpartition(" ")[2] for line in builder.called if line.startswith("docker login")]
    assert logins == [REGISTRY, *([mirror.partition("/")[0]] if logged_in else [])]


def test_without_a_secret_docker_hub_is_read_by_nobody_in_particular(builder: Builder) -> None:
    builder.build()
    assert sum("docker login" in line for line in builder.called) == 1


@pytest.mark.parametrize("command", ["login", "buildx"])
def test_a_docker_command_that_fails_fails_the_build(builder: Builder, command: str) -> None:
    builder.stub("docker", f'case "$1" in {command}) exit 1;; esac')
    assert builder.build() != 0


def test_the_script_is_clean() -> None:
    shellcheck = shutil.which("shellcheck", path=str(Path(sys.executable).parent))
    assert shellcheck is not None, "run scripts/setup.sh"
    answer = subprocess.run([shellcheck, str(SCRIPT)], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout
