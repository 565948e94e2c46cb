"""The launch template and the role of the instances on which workers run, for all instance types."""

from pathlib import Path

from aws_cdk import Size, Tags
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

# The script that a new instance runs before the agent of ECS starts.
SETUP = Path(__file__).resolve().parent / "host_setup.sh"
HOST_IMAGE_TAG = "cosmos-batch:host-image"
ROOT_VOLUME = Size.gibibytes(200)
ROOT_THROUGHPUT = 500  # MiB/s; with the default of 125 a 35 GB image takes four and a half minutes to unpack


class GpuHosts(Construct):
    """The launch template and the instance role of all compute environments."""

    def __init__(self, scope: Construct, construct_id: str, host_image: str) -> None:
        super().__init__(scope, construct_id)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
            managed_policies=[
                iam.ManagedPolicy.from_aws_managed_policy_name("service-role/AmazonEC2ContainerServiceforEC2Role")
            ],
        )
        self.template = ec2.LaunchTemplate(
            self,
            "Template",
            user_data=_user_data(),
            require_imdsv2=True,
            http_put_response_hop_limit=2,  # workers read the Spot notice from containers: one hop more
            block_devices=[
                ec2.BlockDevice(
                    device_name="/dev/xvda",
                    volume=ec2.BlockDeviceVolume.ebs(
                        int(ROOT_VOLUME.to_gibibytes()),
                        volume_type=ec2.EbsDeviceVolumeType.GP3,
                        throughput=ROOT_THROUGHPUT,
                        encrypted=True,
                    ),
                )
            ],
        )
        if host_image:
            # Another value makes a new version of the template: Batch then replaces the hosts, with AWS's newest image.
            Tags.of(self.template).add(HOST_IMAGE_TAG, host_image)


def _user_data() -> ec2.UserData:
    """Return the setup script as a MIME archive, the only form of user data that Batch accepts."""
    archive = ec2.MultipartUserData()
    archive.add_user_data_part(ec2.UserData.custom(SETUP.read_text(encoding="utf-8")))
    return archive
