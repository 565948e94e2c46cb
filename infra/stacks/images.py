"""The container images of the workers."""

from pathlib import Path
from typing import Any

from aws_cdk import Annotations, IgnoreMode, Stack
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from cosmos_batch.contract.config import Config

ROOT = Path(__file__).resolve().parents[2]
REASONER = "containers/reasoner"


class ImagesStack(Stack):
    """One image for each engine environment. Its tag is the hash of what its `Dockerfile.dockerignore` lets through,
    so an edit elsewhere builds nothing."""

    def __init__(self, scope: Construct, construct_id: str, config: Config, **kwargs: Any) -> None:
        super().__init__(scope, construct_id, **kwargs)
        self.reasoner = ecr_assets.DockerImageAsset(
            self,
            "Reasoner",
            directory=str(ROOT),
            file=f"{REASONER}/Dockerfile",
            exclude=(ROOT / REASONER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines(),
            ignore_mode=IgnoreMode.DOCKER,
            platform=ecr_assets.Platform.LINUX_AMD64,
        )
        ssm.StringParameter(
            self,
            "ReasonerImage",
            description="Image that the reasoner workers of this deployment run",
            string_value=self.reasoner.image_uri,
        )
        if config.cosmos.use_code_build:
            Annotations.of(self).add_warning_v2(
                "cosmos-batch:local-docker",
                "useCodeBuild: true is not served yet. `cdk deploy` builds the images with the Docker of this machine; "
                "set app.pipelines.useNvidiaCosmos.useCodeBuild to false to say that this is meant.",
            )
