"""The container images of the workers."""

from typing import Any, get_args

from aws_cdk import CfnOutput, IgnoreMode, Stack
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from cosmos_batch.catalogue.engines import Image
from cosmos_batch.contract.config import Config
from cosmos_batch.contract.images import ImageSettings
from cosmos_batch.planning.deployment import enabled_pipelines
from infra.constructs.image_build import ROOT, ImageBuild, ImageBuilds, ImageRepository, build_context
from infra.stacks.network import NetworkStack


class ImagesStack(Stack):
    """The stack with an image for each engine environment that an enabled pipeline needs (`containers/<name>`).

    It has the repositories of all images, so that no change of the configuration removes one.
    """

    def __init__(
        self, scope: Construct, construct_id: str, config: Config, network: NetworkStack, **kwargs: Any
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        self.images: dict[Image, ecs.ContainerImage] = {}
        self.builds: list[ImageBuild] = []  # empty if the machine that deploys builds them with Docker
        names = list(dict.fromkeys(enabled.image for enabled in enabled_pipelines(config)))
        if config.cosmos.use_code_build:
            self._build_in_the_cloud(names, config.own.images, network)
        else:
            self._build_here(names, config.own.images)
        built = [build.image for build in self.builds]
        for name in get_args(Image):
            if name not in built:
                ImageRepository(self, name)

    def _build_in_the_cloud(self, names: list[Image], settings: ImageSettings, network: NetworkStack) -> None:
        builds = ImageBuilds(self, "Builds", settings, network)
        for name in names:
            build = ImageBuild(self, name, builds)
            self.builds.append(build)
            self._add(name, build.container_image, build.uri)
            CfnOutput(self, f"{name.title()}CodeBuildProject", value=build.project.project_name)

    def _build_here(self, names: list[Image], settings: ImageSettings) -> None:
        """Build the images with Docker on the machine that deploys. CDK's hash of the same files is the tag."""
        for name in names:
            asset = ecr_assets.DockerImageAsset(
                self,
                name.title(),
                directory=str(ROOT),
                file=f"containers/{name}/Dockerfile",
                exclude=build_context(name),
                ignore_mode=IgnoreMode.DOCKER,
                platform=ecr_assets.Platform.LINUX_AMD64,
                build_args={"MIRROR": settings.base_image_mirror, "CUDA": settings.cuda},
            )
            self._add(name, ecs.ContainerImage.from_docker_image_asset(asset), asset.image_uri)

    def _add(self, name: Image, image: ecs.ContainerImage, uri: str) -> None:
        self.images[name] = image
        ssm.StringParameter(
            self,
            f"{name.title()}Image",
            description=f"Image that the {name} workers of this deployment run",
            string_value=uri,
        )
