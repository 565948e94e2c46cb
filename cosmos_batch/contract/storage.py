"""`app.cosmosBatch.storage`: the buckets of files, the encryption keys, and the model cache."""

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from cosmos_batch.contract.base import Model

KMS_KEY_ARN = r"^arn:[a-z-]+:kms:[a-z0-9-]+:\d{12}:key/[0-9a-f-]{36}$"

HostName = Annotated[
    str,
    StringConstraints(pattern=r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$", strict=True),
]


class AdoptedBucket(Model):
    """An existing bucket for inputs and results."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", description="The bucket's name")
    prefix: str = Field(
        default="",
        pattern=r"^([^/*?][^*?]*/)?$",
        description="Only what lies below, such as 'videos/'; by default the whole bucket",
    )
    trigger_on_upload: bool = Field(
        default=False,
        description="Let uploads start jobs. Deployment then adds EventBridge to the bucket's notifications; "
        "otherwise they are left alone",
    )
    kms_key_arn: str | None = Field(
        default=None, pattern=KMS_KEY_ARN, description="The customer key that encrypts the bucket, if one does"
    )

    @property
    def root(self) -> str:
        """Return the bucket and its prefix, as `bucket` or `bucket/prefix/`."""
        return f"{self.name}/{self.prefix}" if self.prefix else self.name

    def holds(self, other: "AdoptedBucket") -> bool:
        """Return whether every object of the other bucket and prefix belongs to this one too."""
        return self.name == other.name and other.prefix.startswith(self.prefix)


class StorageSettings(Model):
    """Settings of buckets, keys and the model cache."""

    create_asset_bucket: bool = Field(default=True, description="Make a bucket for files; uploads to it start jobs")
    asset_buckets: list[AdoptedBucket] = Field(default_factory=list, description="Existing buckets to use as well")
    input_hosts: list[HostName] = Field(
        default_factory=list,
        description="Hosts such as 'media.example.com', from which the command line may copy files at the https "
        "addresses that manifests of runs name; by default none",
    )
    use_efs: bool = Field(
        default=True,
        description="Keep models on EFS, $0.03 per GB read. Without it each host fills its NVMe from S3",
    )
    kms_key: str | None = Field(
        default=None,
        pattern=rf"^create$|{KMS_KEY_ARN}",
        description="Encrypt all stores with a customer key: 'create', or the ARN of yours. By default with AWS's keys",
    )

    @model_validator(mode="after")
    def _some_bucket(self) -> Self:
        if not self.create_asset_bucket and not self.asset_buckets:
            raise ValueError("assetBuckets: is empty and createAssetBucket is false; there must be a bucket of files")
        roots = [bucket.root for bucket in self.asset_buckets]
        if len(set(roots)) != len(roots):
            raise ValueError("assetBuckets: names a bucket and prefix twice; name each once")
        return self
