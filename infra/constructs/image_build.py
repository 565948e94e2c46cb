"""Build the workers' images in CodeBuild while CloudFormation waits."""

import hashlib
import json
import re
from pathlib import Path

from aws_cdk import Aws, CustomResource, Duration, IgnoreMode, RemovalPolicy, Stack
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from cosmos_batch.catalogue.engines import Image
from cosmos_batch.contract.environment import Environment
from cosmos_batch.contract.images import ImageSettings
from infra.constructs.functions import IMAGE_BUILD_CODE, Functions
from infra.constructs.permissions import allow
from infra.stacks.network import NetworkStack

ROOT = Path(__file__).resolve().parents[2]
ENDS = ["SUCCEEDED", "FAILED", "FAULT", "STOPPED", "TIMED_OUT"]
# CloudFormation waits an hour for a custom resource, which has to include the wait in CodeBuild's queue.
BUILD_TIMEOUT, QUEUED_TIMEOUT = Duration.minutes(50), Duration.minutes(8)
KEPT_IMAGES = 10
HANDLER_TIMEOUT = Duration.minutes(1)
ECR_MIRROR = re.compile(r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.[a-z.]+/(?P<prefix>.*)")


def build_context(image: Image) -> list[str]:
    """Return patterns of the files that an image's build does not see, for CDK's ignore mode `DOCKER`."""
    ignored = (ROOT / "containers" / image / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    return [*ignored, "!containers/build.sh"]


class ImageBuilds(Construct):
    """The function that starts all builds, and answers CloudFormation when they have ended."""

    def __init__(self, scope: Construct, construct_id: str, settings: ImageSettings, network: NetworkStack) -> None:
        super().__init__(scope, construct_id)
        self.settings = settings
        self.network = network
        functions = Functions(self, "Functions", tracing=False, files=IMAGE_BUILD_CODE, layer=False)
        self.function = functions.create("image_build", Environment(), HANDLER_TIMEOUT)

    def connect(self, build: "ImageBuild") -> None:
        """Allow the function to start a build, and invoke it when the build ends."""
        allow(self.function, ["codebuild:StartBuild", "codebuild:BatchGetBuilds"], [build.project.project_arn])
        allow(self.function, ["ecr:DescribeImages"], [build.repository.repository_arn])
        build.log.grant(self.function, "logs:GetLogEvents")  # the last lines of a failed build are quoted as its reason
        events.Rule(
            build,
            "Ended",
            description="The end of a build, for which CloudFormation waits",
            event_pattern=events.EventPattern(
                source=["aws.codebuild"],
                detail_type=["CodeBuild Build State Change"],
                detail={"project-name": [build.project.project_name], "build-status": ENDS},
            ),
            targets=[targets.LambdaFunction(self.function)],
        )


class ImageRepository(Construct):
    """The repository of an image from which workers pull it.

    It is deployed whether or not a pipeline uses the image. Workers of the deployment before may still have to pull
    theirs, which they could not if another engine took its repository away. Without images it costs nothing.
    """

    def __init__(self, scope: Construct, image: Image) -> None:
        # The logical ids of deployed repositories derive from this id.
        super().__init__(scope, f"{image.title()}Build")
        # The name is fixed, so that job definitions can contain it. If they imported a name that CloudFormation chose,
        # CloudFormation could not delete the repository of an image that a later version does not have.
        self.name = f"cosmos-batch/{image}"
        self.repository = ecr.Repository(
            self,
            "Repository",
            repository_name=self.name,
            image_scan_on_push=True,
            image_tag_mutability=ecr.TagMutability.IMMUTABLE,
            lifecycle_rules=[
                ecr.LifecycleRule(
                    description="What no tag names", tag_status=ecr.TagStatus.UNTAGGED, max_image_age=Duration.days(7)
                ),
                # By count and not by age, for the image that workers run may be old. It is among the last that were
                # pushed, and a deployment that returns to a deleted image builds it again.
                ecr.LifecycleRule(
                    description="Images of deployments long before the last",
                    tag_status=ecr.TagStatus.TAGGED,
                    tag_pattern_list=["*"],
                    max_image_count=KEPT_IMAGES,
                ),
            ],
            removal_policy=RemovalPolicy.DESTROY,
            empty_on_delete=True,
        )


class ImageBuild(ImageRepository):
    """An image that CodeBuild builds: its repository, its project, and its tag.

    The tag is a hash of all files that the build sees. So an edit of another file builds nothing, and a tag always
    names the same content.
    """

    def __init__(self, scope: Construct, image: Image, builds: ImageBuilds) -> None:
        super().__init__(scope, image)
        self.builds = builds
        self.image = image
        self._settings = builds.settings
        source = s3_assets.Asset(
            self, "Source", path=str(ROOT), exclude=build_context(image), ignore_mode=IgnoreMode.DOCKER
        )
        self.tag = _tag(source.asset_hash, builds.settings)
        self._cache = ecr.Repository(
            self,
            "Cache",
            lifecycle_rules=[
                ecr.LifecycleRule(
                    description="Layers of builds before the last, which lost their tags to it",
                    tag_status=ecr.TagStatus.UNTAGGED,
                    max_image_age=Duration.days(1),
                )
            ],
            removal_policy=RemovalPolicy.DESTROY,
            empty_on_delete=True,
        )
        self.named = ecr.Repository.from_repository_name(self, "Named", self.name)
        self.log = logs.LogGroup(self, "Log", removal_policy=RemovalPolicy.DESTROY)
        self.project = self._make_project(source, builds.network)
        builds.connect(self)

    def build_in(self, stack: Stack) -> CustomResource:
        """Add a custom resource to `stack`, so that its deployment builds the image and fails if the build fails."""
        return CustomResource(
            stack,
            f"{self.image.title()}Built",
            resource_type="Custom::ImageBuild",
            service_token=self.builds.function.function_arn,
            properties={
                "Project": self.project.project_name,
                "Repository": self.repository.repository_name,
                "Tag": self.tag,
            },
        )

    @property
    def container_image(self) -> ecs.ContainerImage:
        """Return the image in the form that a job definition takes."""
        return ecs.ContainerImage.from_ecr_repository(self.named, self.tag)

    @property
    def uri(self) -> str:
        """Return the image's URI, with its tag."""
        return self.repository.repository_uri_for_tag(self.tag)

    def _make_project(self, source: s3_assets.Asset, network: NetworkStack) -> codebuild.Project:
        # A build downloads base images and packages from the internet. Where the workers' subnets do not reach it, the
        # build runs in CodeBuild's own network.
        private = network.settings.mode == "private"
        project = codebuild.Project(
            self,
            "Project",
            description=f"Image {self.image} of Cosmos Batch",
            source=codebuild.Source.s3(bucket=source.bucket, path=source.s3_object_key),
            build_spec=codebuild.BuildSpec.from_object(
                {"version": "0.2", "phases": {"build": {"commands": ["bash containers/build.sh"]}}}
            ),
            environment=codebuild.BuildEnvironment(
                build_image=codebuild.LinuxBuildImage.STANDARD_7_0,
                compute_type=codebuild.ComputeType.LARGE,  # 128 GB of disk, for images of more than 10 GB
                privileged=True,  # the Docker engine, which runs in the build's container, needs it
            ),
            environment_variables=self._variables(),
            vpc=network.vpc if private else None,
            subnet_selection=network.worker_subnets if private else None,
            security_groups=[self._security_group(network)] if private else None,
            timeout=BUILD_TIMEOUT,
            queued_timeout=QUEUED_TIMEOUT,
            grant_report_group_permissions=False,
            logging=codebuild.LoggingOptions(cloud_watch=codebuild.CloudWatchLoggingOptions(log_group=self.log)),
        )
        for repository in (self.repository, self._cache):
            repository.grant_pull_push(project)
        allow(project, ["ecr:DescribeImages"], [self.repository.repository_arn])
        _allow_mirror(project, self._settings.base_image_mirror)
        return project

    def _security_group(self, network: NetworkStack) -> ec2.SecurityGroup:
        return ec2.SecurityGroup(
            self, "Group", vpc=network.vpc, description="Builds: they call out, nothing calls them"
        )

    def _variables(self) -> dict[str, codebuild.BuildEnvironmentVariable]:
        plain = {
            "IMAGE": self.image,
            "REPOSITORY": self.repository.repository_uri,
            "CACHE": self._cache.repository_uri,
            "TAG": self.tag,
            "MIRROR": self._settings.base_image_mirror,
            "CUDA": self._settings.cuda,
        }
        variables = {name: codebuild.BuildEnvironmentVariable(value=value) for name, value in plain.items()}
        if self._settings.docker_hub_secret_arn is not None:
            for part in ("username", "password"):
                variables[f"DOCKER_HUB_{part.upper()}"] = codebuild.BuildEnvironmentVariable(
                    value=f"{self._settings.docker_hub_secret_arn}:{part}",
                    type=codebuild.BuildEnvironmentVariableType.SECRETS_MANAGER,
                )
        return variables


def _allow_mirror(project: codebuild.Project, mirror: str) -> None:
    """Allow a build to pull through a cache of ECR, which fetches what it lacks with the rights of who pulls.

    The rights are those of docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache-iam.html. A mirror that is
    not of ECR needs none.
    """
    if (match := ECR_MIRROR.match(mirror)) is None:
        return
    repositories = "arn:{}:ecr:{}:{}:repository/{}*".format(
        Aws.PARTITION, match["region"], match["account"], match["prefix"]
    )
    pull = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
    allow(project, [*pull, "ecr:BatchImportUpstreamImage", "ecr:CreateRepository"], [repositories])


def _tag(asset_hash: str, settings: ImageSettings) -> str:
    arguments = json.dumps([asset_hash, settings.base_image_mirror, settings.cuda])
    return hashlib.sha256(arguments.encode()).hexdigest()[:32]
