"""The EFS file system that holds the workers' models."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_efs as efs
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.stacks.network import NetworkStack

UID = "1000"  # the id of the user that runs the worker in every image


class ModelCache(Construct):
    """An encrypted file system with elastic throughput and one access point.

    It is deleted with its stack: it is a cache of models that are backed up in S3. A client needs TLS and an IAM role:
    a file system with a policy admits only roles that a policy allows, and this one's policy denies NFS without TLS.
    """

    def __init__(self, scope: Construct, construct_id: str, network: NetworkStack) -> None:
        super().__init__(scope, construct_id)
        self.file_system = efs.FileSystem(
            self,
            "FileSystem",
            vpc=network.vpc,
            vpc_subnets=network.zone_subnets,
            security_group=network.file_system_group,
            encrypted=True,
            throughput_mode=efs.ThroughputMode.ELASTIC,
            # A model that no worker has read for 30 days costs a tenth until one reads it again (decision 073).
            lifecycle_policy=efs.LifecyclePolicy.AFTER_30_DAYS,
            out_of_infrequent_access_policy=efs.OutOfInfrequentAccessPolicy.AFTER_1_ACCESS,
            file_system_policy=iam.PolicyDocument(statements=[_tls_only()]),
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.access_point = self.file_system.add_access_point(
            "Models",
            path="/models",
            create_acl=efs.Acl(owner_uid=UID, owner_gid=UID, permissions="750"),
            posix_user=efs.PosixUser(uid=UID, gid=UID),
        )

    def grant_mount(self, role: iam.IRole) -> None:
        """Allow a role to mount the access point for reading and writing."""
        role.add_to_principal_policy(
            iam.PolicyStatement(
                actions=["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"],
                resources=[self.file_system.file_system_arn],
                conditions={"StringEquals": {"elasticfilesystem:AccessPointArn": self.access_point.access_point_arn}},
            )
        )


def _tls_only() -> iam.PolicyStatement:
    return iam.PolicyStatement(
        effect=iam.Effect.DENY,
        principals=[iam.AnyPrincipal()],
        actions=[
            "elasticfilesystem:ClientMount",
            "elasticfilesystem:ClientWrite",
            "elasticfilesystem:ClientRootAccess",
        ],
        conditions={"Bool": {"aws:SecureTransport": "false"}},
    )
