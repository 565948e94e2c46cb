"""The stack with the buckets, the state table, the model cache and the Hugging Face token."""

import json
from collections.abc import Sequence
from typing import Any

from aws_cdk import CfnOutput, Duration, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cosmos_batch.contract.config import UseNvidiaCosmos
from cosmos_batch.contract.storage import AdoptedBucket, StorageSettings
from infra.constructs.asset_buckets import AssetBuckets, make_own_bucket
from infra.constructs.encryption import make_key
from infra.constructs.hugging_face_token import HuggingFaceToken
from infra.constructs.log_bucket import LogBucket
from infra.constructs.model_cache import ModelCache
from infra.constructs.private_bucket import PrivateBucket
from infra.constructs.state_table import StateTable
from infra.stacks.network import NetworkStack

# Rows of the state table that refer to these objects expire after the same time (`state.table.KEEP_SECONDS`).
KEEP = Duration.days(30)
# The engines' compile caches, in the model bucket. A worker writes one that was deleted again.
CACHES, CACHES_KEEP = "caches/", Duration.days(90)


class StorageStack(Stack):
    """The stores, most of which are kept when the stack is deleted."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        settings: StorageSettings,
        network: NetworkStack,
        cosmos: UseNvidiaCosmos,
        adopted: Sequence[AdoptedBucket] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        self.key = self._find_key(settings.kms_key)
        own = make_own_bucket(self, KEEP) if settings.create_asset_bucket else None
        self.assets = AssetBuckets(self, "AssetBuckets", own, [*settings.asset_buckets, *adopted])
        self.state = PrivateBucket(
            self,
            "State",
            lifecycle=[s3.LifecycleRule(prefix=prefix, expiration=KEEP) for prefix in ("jobs/", "requests/")],
        )
        self.models = PrivateBucket(self, "Models", lifecycle=[s3.LifecycleRule(prefix=CACHES, expiration=CACHES_KEEP)])
        self.logs = LogBucket(self, "Logs")
        for bucket in (own, self.state, self.models):
            if bucket is not None:
                self.logs.log_accesses(bucket)
        if network.settings.existing is None:
            self.logs.log_rejected_traffic(network.vpc)
        self.table = StateTable(self, "StateTable")
        self.cache = ModelCache(self, "ModelCache", network) if settings.use_efs else None
        token = HuggingFaceToken(self, "HuggingFaceToken", cosmos)
        # Workers that cannot reach Secrets Manager would wait for it in vain before they report a missing model.
        self.token = token if network.settings.reaches_secrets else None
        CfnOutput(self, "AssetBucketName", value=self.assets.all[0].bucket.bucket_name)
        # The command line uploads to the first of these that it may use.
        CfnOutput(self, "AssetRoots", value=self.to_json_string(self.assets.roots))
        # Their files may be named in manifests of runs, and are copied by the command line.
        CfnOutput(self, "InputHosts", value=json.dumps(settings.input_hosts))
        CfnOutput(self, "StateBucketName", value=self.state.bucket_name)
        CfnOutput(self, "ModelBucketName", value=self.models.bucket_name)
        CfnOutput(self, "LogBucketName", value=self.logs.bucket_name)
        CfnOutput(self, "StateTableName", value=self.table.table_name)

    def _find_key(self, setting: str | None) -> kms.IKey | None:
        """Return the customer key of all stores; None if AWS's own keys encrypt them."""
        if setting is None:
            return None
        return make_key(self) if setting == "create" else kms.Key.from_key_arn(self, "Key", setting)
