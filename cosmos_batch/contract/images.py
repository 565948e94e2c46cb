"""`app.cosmosBatch.images`: how the workers' container images are built."""

from typing import Literal

from pydantic import Field

from cosmos_batch.contract.base import Model


class ImageSettings(Model):
    """Settings of the builds of container images."""

    cuda: Literal["cu130", "cu128"] = Field(
        default="cu130",
        description="CUDA of the reasoner's image: 'cu130' needs a driver of 580 or later, as the AMI has; 'cu128' 570",
    )
    docker_hub_secret_arn: str | None = Field(
        default=None,
        pattern=r"^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:\d{12}:secret:\S+$",
        description='A secret {"username", "password"} for Docker Hub, which answers 429 to anonymous builds',
    )
    base_image_mirror: str = Field(
        default="",
        pattern=r"^([a-z0-9][a-z0-9.:/_-]*/)?$",
        description="Registry before the names of base images of Docker Hub, such as a pull-through cache's, with its "
        "last slash",
    )
