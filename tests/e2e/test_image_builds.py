"""A deployment waits for its images: each is built once, and a failed build fails the deployment."""

import os
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.cli.local_cloud import start_local_cloud
from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.local.deploy import DeployError, deploy
from cosmos_batch.planning.configuration import load_config
from infra.synth import synthesize
from tests.e2e.clear_text import holding, kinds, open_places
from tests.support.deployed_app import App, configuration, configuration_text

pytestmark = pytest.mark.slow

TOKEN = "hf_that-nobody-may-read"


@pytest.fixture(scope="module")
def use_code_build() -> bool:
    """Deploy with CodeBuild, whose builds are tested here."""
    return True


def builds(app: App) -> list[dict[str, Any]]:
    codebuild = app.client("codebuild")
    ids = codebuild.list_builds_for_project(projectName=app.outputs["ReasonerCodeBuildProject"])["ids"]
    described: list[dict[str, Any]] = codebuild.batch_get_builds(ids=ids)["builds"]
    return described


def image(app: App) -> str:
    """Return the image that workers run."""
    [definition] = [
        one
        for one in app.client("batch").describe_job_definitions(status="ACTIVE")["jobDefinitions"]
        if "8b" in one["jobDefinitionName"]
    ]
    uri: str = definition["containerProperties"]["image"]
    return uri


def test_the_image_of_a_worker_was_built_scanned_and_named_by_its_content(app: App) -> None:
    [build] = builds(app)
    assert build["buildStatus"] == "SUCCEEDED"
    repository, tag = image(app).partition("/")[2].split(":")
    [pushed] = app.client("ecr").describe_images(repositoryName=repository)["imageDetails"]
    assert pushed["imageTags"] == [tag]


def test_a_deployment_that_changes_no_image_builds_none(app: App, tmp_path: Path) -> None:
    before = image(app)
    changed = configuration(app.folder, deadlineHours=1, use_code_build=True)
    deploy(synthesize(changed, tmp_path / "cdk.out"), app.cloud)
    assert len(builds(app)) == 1
    assert image(app) == before


def test_a_token_is_in_its_secret_and_nowhere_else(app: App, picture: Path, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(configuration_text(app.folder, token=TOKEN, use_code_build=True))
    deploy(synthesize(load_config(file), tmp_path / "cdk.out", file), app.cloud)
    app.upload("p.png", picture, prompt="x")
    assert app.execution_of("p.png")["status"] == "SUCCEEDED"
    secret = app.client("secretsmanager").get_secret_value(SecretId=app.outputs["HuggingFaceTokenSecretArn"])
    assert secret["SecretString"] == TOKEN
    places = open_places(app.cloud)
    assert kinds(places) >= {
        "function",
        "job definition",
        "project",
        "build",
        "log group",
        "template",
        "object",
        "file",
    }
    assert holding(TOKEN, places) == []


def test_a_first_deployment_whose_build_fails_keeps_what_was_built(tmp_path: Path) -> None:
    """The next deployment continues from the layers of the stages that were built."""
    config = configuration(tmp_path, use_code_build=True)
    broken = synthesize(config, tmp_path / "broken" / "cdk.out")
    for dockerfile in broken.glob("asset.*/containers/reasoner/Dockerfile"):
        dockerfile.write_text("FROM scratch AS base\nFROM base AS packages\nCOPY not-there /\n")
    with start_local_cloud(tmp_path / "home", parent_pid=os.getpid()) as cloud:
        with pytest.raises(DeployError, match="CosmosBatch-Builds"):
            deploy(broken, cloud, lambda _: None)
        ecr = cloud.client("ecr")
        repositories = {repository["repositoryName"] for repository in ecr.describe_repositories()["repositories"]}
        [cache] = [name for name in repositories if not name.startswith("cosmos-batch/")]
        assert "stage-base" in tags(cloud, cache) and "stage-packages" not in tags(cloud, cache)

        # Another key, for the source of the broken build is in the bucket under this one.
        mended = synthesize(
            configuration(tmp_path, images={"baseImageMirror": "mirror.example/"}, use_code_build=True),
            tmp_path / "cdk.out",
        )
        for dockerfile in mended.glob("asset.*/containers/reasoner/Dockerfile"):
            asset = dockerfile.parents[2].name.removeprefix("asset.")
            for file in mended.glob("CosmosBatch-Images.*.json"):
                file.write_text(file.read_text().replace(f"{asset}.zip", f"{asset[::-1]}.zip"))
        deploy(mended, cloud, lambda _: None)
        assert {
            repository["repositoryName"] for repository in ecr.describe_repositories()["repositories"]
        } == repositories
        assert {"stage-base", "stage-packages"} <= tags(cloud, cache)
        assert len(tags(cloud, "cosmos-batch/reasoner")) == 1


def tags(cloud: LocalCloud, repository: str) -> set[str]:
    images = cloud.client("ecr").describe_images(repositoryName=repository)["imageDetails"]
    return {tag for image in images for tag in image.get("imageTags", [])}


def test_a_build_that_fails_fails_the_deployment_with_its_reason(app: App, tmp_path: Path) -> None:
    before = image(app)
    changed = configuration(
        app.folder, images={"baseImageMirror": "mirror.example/"}, use_code_build=True
    )  # another tag
    assembly = synthesize(changed, tmp_path / "cdk.out")
    for dockerfile in assembly.glob("asset.*/containers/reasoner/Dockerfile"):
        dockerfile.write_text("FROM scratch\nCOPY not-there /\n")
        dockerfile.parents[2].rename(dockerfile.parents[2])
    [asset] = [path.parents[2] for path in assembly.glob("asset.*/containers/reasoner/Dockerfile")]
    for stack_file in assembly.glob("CosmosBatch-Images.*.json"):  # a new key, for the bucket has the old content
        renamed = asset.name.removeprefix("asset.")
        stack_file.write_text(stack_file.read_text().replace(f"{renamed}.zip", f"{renamed[::-1]}.zip"))
    with pytest.raises(DeployError) as raised:
        deploy(assembly, app.cloud)
    for word in (
        "CosmosBatch-Builds",
        "Custom::ImageBuild",
        "FAILED in BUILD",
        "bash containers/build.sh",
        'ERROR: failed to solve: failed to compute cache key: "/not-there": not found',
        "Its log: ",
    ):
        assert word in str(raised.value)
    assert image(app) == before  # workers go on with the image that they have
