"""CodeBuild, or Docker on the machine that deploys, builds the images; CloudFormation waits for CodeBuild."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cosmos_batch.planning.configuration import parse_config
from infra.synth import synthesize
from tests.infra.assembly import Assembly, Resource
from tests.infra.examples import example
from tests.support.configurations import with_nano

DOCKER_HUB = "arn:aws:secretsmanager:us-east-1:123456789012:secret:docker-hub-AbCdEf"


def built(assembly: Assembly) -> dict[str, Resource]:
    """Return the custom resources that wait for a build, by logical id."""
    resources = assembly.templates.get("Builds", {}).get("Resources", {})
    return {name: resource for name, resource in resources.items() if resource["Type"] == "Custom::ImageBuild"}


def variables(project: Resource) -> dict[str, Resource]:
    return {variable["Name"]: variable for variable in project["Environment"]["EnvironmentVariables"]}


def synthesized(tmp_path: Path, cosmos: str = "", own: str = "{}") -> Assembly:
    block = f'{{"enabled": true, "modelsReason": {{"reason2B": {{"enabled": true}}}}{cosmos}}}'
    text = f'{{"app": {{"pipelines": {{"useNvidiaCosmos": {block}}}, "cosmosBatch": {own}}}}}'
    return Assembly(synthesize(parse_config(text), tmp_path / "cdk.out"))


def test_an_image_is_built_for_each_engine_environment_that_is_needed() -> None:
    assert [name.startswith("Reasoner") for name in built(example("reason-only"))] == [True]
    assert [name.startswith("Omni") for name in built(example("generator-only"))] == [True]
    assert len(built(example("everything"))) == 2


def test_a_project_builds_within_an_hour_in_the_private_network(assembly: Assembly) -> None:
    project = assembly.one("Images", "CodeBuild::Project")
    assert project["TimeoutInMinutes"] + project["QueuedTimeoutInMinutes"] < 60  # CloudFormation waits an hour
    assert project["Environment"]["PrivilegedMode"] is True
    assert project["Source"]["Type"] == "S3"
    assert "bash containers/build.sh" in project["Source"]["BuildSpec"]
    assert project["VpcConfig"]["Subnets"] and len(project["VpcConfig"]["SecurityGroupIds"]) == 1
    plain = {name: variable["Value"] for name, variable in variables(project).items()}
    assert plain["IMAGE"] == "reasoner" and plain["CUDA"] == "cu130" and plain["MIRROR"] == ""
    (waiting,) = built(assembly).values()
    assert plain["TAG"] == waiting["Properties"]["Tag"]


def test_its_source_is_what_the_dockerfile_needs_and_no_more(assembly: Assembly) -> None:
    (source,) = [
        assembly.folder / one["source"]["path"]
        for one in assembly.assets("Images")["files"].values()
        if (assembly.folder / one["source"]["path"] / "containers").exists()
    ]
    assert {path.name for path in (source / "containers").rglob("*") if path.is_file()} == {
        "build.sh",
        "layers.py",
        "Dockerfile",
        "requirements.cu130.lock",
        "requirements.cu128.lock",
    }
    rooms = {path.name for path in (source / "cosmos_batch").iterdir() if path.is_dir()}
    assert rooms == {"catalogue", "contract", "engines", "media", "planning", "state", "store", "worker"}


def test_the_job_definition_names_the_tag_and_waits_for_the_build(assembly: Assembly) -> None:
    (waiting,) = built(assembly).values()
    image = json.dumps(assembly.one("Pipelines", "Batch::JobDefinition", "22b")["ContainerProperties"]["Image"])
    assert f":{waiting['Properties']['Tag']}" in image
    manifest = json.loads((assembly.folder / "manifest.json").read_text())
    assert "CosmosBatch-Builds" in manifest["artifacts"]["CosmosBatch-Pipelines"]["dependencies"]


def test_images_are_scanned_and_kept_as_long_as_a_tag_names_them(assembly: Assembly) -> None:
    for repository in assembly.properties("Images", "ECR::Repository", "Repository"):
        assert repository["ImageScanningConfiguration"] == {"ScanOnPush": True}
        assert repository["ImageTagMutability"] == "IMMUTABLE"
    for one in assembly.properties("Images", "ECR::Repository"):
        untagged = json.loads(one["LifecyclePolicy"]["LifecyclePolicyText"])["rules"][0]
        assert untagged["selection"]["tagStatus"] == "untagged"


def test_the_last_ten_images_are_kept_whatever_their_age(assembly: Assembly) -> None:
    repository = assembly.one("Images", "ECR::Repository", "ReasonerBuildRepository")
    tagged = json.loads(repository["LifecyclePolicy"]["LifecyclePolicyText"])["rules"][-1]["selection"]
    assert (tagged["tagStatus"], tagged["tagPatternList"]) == ("tagged", ["*"])
    assert (tagged["countType"], tagged["countNumber"]) == ("imageCountMoreThan", 10)


def test_layers_have_a_repository_of_their_own(assembly: Assembly) -> None:
    build_variables = variables(assembly.one("Images", "CodeBuild::Project"))
    assert build_variables["CACHE"]["Value"] != build_variables["REPOSITORY"]["Value"]
    assert "ImageTagMutability" not in assembly.one("Images", "ECR::Repository", "Cache")


@pytest.mark.parametrize("engine", ["diffusers", "cosmos-framework", "phyai", "endpoint"])
def test_another_engine_takes_away_no_repository(engine: str, tmp_path: Path) -> None:
    """Workers of the deployment before still pull their image, also when CDK has deployed the other stacks."""
    entry = {"engine": engine, **({"endpoint": {"url": "http://10.0.1.7:8000/v1"}} if engine == "endpoint" else {})}
    config = parse_config(with_nano(guardrails=False, **entry))
    changed = Assembly(synthesize(config, tmp_path / "cdk.out"))
    assert named_repositories(changed) == named_repositories(example("generator-only"))
    (built_image,) = built(changed)
    assert not built_image.startswith("Omni")


def test_docker_on_the_machine_that_deploys_takes_away_no_repository(local_docker: Assembly) -> None:
    assert named_repositories(local_docker) == named_repositories(example("reason-only"))


def named_repositories(assembly: Assembly) -> dict[str, Resource]:
    """Return the repositories from which workers pull, by logical id. Those of layers have no name."""
    repositories = assembly.resources("Images", "ECR::Repository")
    return {name: one for name, one in repositories.items() if "RepositoryName" in one["Properties"]}


def test_an_image_that_is_no_longer_needed_can_be_removed() -> None:
    """CloudFormation does not remove an output that another stack imports."""
    outputs = example("everything").templates["Images"]["Outputs"]
    assert not [name for name, output in outputs.items() if "Export" in output]


def test_image_build_has_a_zip_of_its_own_from_which_it_can_be_imported(assembly: Assembly) -> None:
    function = assembly.one("Images", "Lambda::Function")
    assert "Layers" not in function
    source = assembly.assets("Images")["files"][function["Code"]["S3Key"].removesuffix(".zip")]["source"]["path"]
    folder = assembly.folder / source
    files = {str(path.relative_to(folder / "lambdas")) for path in folder.rglob("*") if path.is_file()}
    shared = {"__init__.py", "cloudformation.py", "log.py"}
    assert files == {
        *shared,
        "builds/__init__.py",
        "builds/images.py",
        "handlers/__init__.py",
        "handlers/image_build.py",
    }
    command = [
        sys.executable,
        "-B",
        "-I",
        "-c",
        "import sys; sys.path.insert(0, '.'); import lambdas.handlers.image_build",
    ]
    subprocess.run(command, cwd=folder, check=True)


def test_builds_run_one_after_the_other() -> None:
    first, second = sorted(built(example("everything")).items(), key=lambda one: len(one[1].get("DependsOn", [])))
    assert first[0] in second[1]["DependsOn"]


def test_a_failed_build_does_not_delete_a_repository() -> None:
    """CloudFormation deletes everything that a stack has created when its first deployment fails."""
    kinds = {resource["Type"] for resource in example("everything").templates["Builds"]["Resources"].values()}
    assert kinds == {"Custom::ImageBuild"}


def test_an_update_of_a_deployment_whose_images_were_built_in_their_stack_replaces_no_repository() -> None:
    """The logical ids and names of the reasoner's and Omni's are those of commit 0f4e7e0."""
    repositories = example("everything").resources("Images", "ECR::Repository")
    names = {name: repository["Properties"].get("RepositoryName") for name, repository in repositories.items()}
    assert names == {
        "ReasonerBuildRepository211EA509": "cosmos-batch/reasoner",
        "ReasonerBuildCache7B89AA3E": None,
        "OmniBuildRepository16F98C64": "cosmos-batch/omni",
        "OmniBuildCacheA18EF1F4": None,
        "DiffusersBuildRepository086A9821": "cosmos-batch/diffusers",
        "FrameworkBuildRepository3825E277": "cosmos-batch/framework",
        "PhyaiBuildRepositoryC27646BB": "cosmos-batch/phyai",
    }


def test_the_rule_for_ended_builds_exists_before_a_build_begins(assembly: Assembly) -> None:
    manifest = json.loads((assembly.folder / "manifest.json").read_text())
    assert "CosmosBatch-Images" in manifest["artifacts"]["CosmosBatch-Builds"]["dependencies"]
    detail = assembly.one("Images", "Events::Rule")["EventPattern"]["detail"]
    assert set(detail["build-status"]) == {"SUCCEEDED", "FAILED", "FAULT", "STOPPED", "TIMED_OUT"}


def test_the_name_of_the_project_is_an_output(assembly: Assembly) -> None:
    outputs = assembly.templates["Images"]["Outputs"]
    assert "ReasonerCodeBuildProject" in outputs


def test_builds_reach_the_internet_where_workers_do_not() -> None:
    assert "VpcConfig" not in example("vpc-only").one("Images", "CodeBuild::Project")


def test_docker_hub_is_logged_in_to_by_a_secret_or_gone_around_by_a_mirror(tmp_path: Path) -> None:
    own = f'{{"images": {{"dockerHubSecretArn": "{DOCKER_HUB}", "baseImageMirror": "mirror.example/hub/"}}}}'
    assembly = synthesized(tmp_path, own=own)
    build_variables = variables(assembly.one("Images", "CodeBuild::Project"))
    assert build_variables["DOCKER_HUB_PASSWORD"] == {
        "Name": "DOCKER_HUB_PASSWORD",
        "Type": "SECRETS_MANAGER",
        "Value": f"{DOCKER_HUB}:password",
    }
    assert build_variables["MIRROR"]["Value"] == "mirror.example/hub/"
    (plain,) = built(example("reason-only")).values()
    (mirrored,) = built(assembly).values()
    assert plain["Properties"]["Tag"] != mirrored["Properties"]["Tag"]  # another base is another image


@pytest.mark.parametrize(
    ("mirror", "repositories"),
    [
        ("123456789012.dkr.ecr.us-east-1.amazonaws.com/hub/", [":ecr:us-east-1:123456789012:repository/hub/*"]),
        ("mirror.example/hub/", []),
    ],
)
def test_a_build_may_pull_through_a_mirror_that_is_a_cache_of_ecr(
    mirror: str, repositories: list[str], tmp_path: Path
) -> None:
    assembly = synthesized(tmp_path, own=f'{{"images": {{"baseImageMirror": "{mirror}"}}}}')
    statements = [
        statement
        for policy in assembly.properties("Images", "IAM::Policy")
        for statement in policy["PolicyDocument"]["Statement"]
        if "ecr:BatchImportUpstreamImage" in statement["Action"]
    ]
    assert [statement["Resource"]["Fn::Join"][1][-1] for statement in statements] == repositories
    assert all({"ecr:BatchGetImage", "ecr:CreateRepository"} < {*statement["Action"]} for statement in statements)


@pytest.fixture
def local_docker(tmp_path: Path) -> Assembly:
    return synthesized(tmp_path, cosmos=', "useCodeBuild": false')


def test_without_codebuild_the_docker_of_the_deployer_builds(local_docker: Assembly) -> None:
    assert not local_docker.resources("Images", "CodeBuild::Project") and not built(local_docker)
    ((tag, image),) = local_docker.assets("Images")["dockerImages"].items()
    assert image["source"]["dockerFile"] == "containers/reasoner/Dockerfile"
    assert image["source"]["platform"] == "linux/amd64"
    assert image["source"]["dockerBuildArgs"] == {"MIRROR": "", "CUDA": "cu130"}
    folder = local_docker.folder / image["source"]["directory"]
    assert (folder / image["source"]["dockerFile"]).exists()
    assert not (folder / "lambdas").exists()
    definition = local_docker.one("Pipelines", "Batch::JobDefinition", "22b")
    assert tag in json.dumps(definition["ContainerProperties"]["Image"])
