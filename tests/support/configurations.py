"""Configurations, as text, of the tests about them."""

import json
from typing import Any

SEED: dict[str, Any] = {
    "app": {
        "pipelines": {
            "useNvidiaCosmos": {
                "enabled": True,
                "huggingFaceToken": "hf_yourTokenHere",
                "useWarmInstances": False,
                "warmInstanceCount": 1,
                "modelsReason": {
                    "reason2B": {
                        "enabled": True,
                        "autoRegisterWithVAMS": True,
                        "instanceTypes": ["g6e.12xlarge", "g5.12xlarge"],
                        "maxVCpus": 192,
                    },
                    "reason8B": {
                        "enabled": True,
                        "autoRegisterWithVAMS": True,
                        "instanceTypes": ["g6e.12xlarge", "g6e.24xlarge"],
                        "maxVCpus": 192,
                    },
                },
            }
        }
    }
}


def with_cosmos(**changes: Any) -> str:
    block = {**SEED["app"]["pipelines"]["useNvidiaCosmos"], **changes}
    return json.dumps({"app": {"pipelines": {"useNvidiaCosmos": block}}})


def with_2b(**changes: Any) -> str:
    return with_cosmos(modelsReason={"reason2B": {"enabled": True, **changes}})


def with_nano(**changes: Any) -> str:
    entry = {"enabled": True, **changes}
    return json.dumps({"app": {"pipelines": {"useNvidiaCosmos3": {"enabled": True, "modelsOmni": {"nano16B": entry}}}}})


def with_own(**blocks: Any) -> str:
    return json.dumps({"app": {"cosmosBatch": blocks}})


EXISTING: dict[str, Any] = {
    "vpcId": "vpc-0123456789abcdef0",
    "cidr": "10.4.0.0/16",
    "subnets": [
        {"subnetId": "subnet-0a", "availabilityZone": "us-east-1a", "routeTableId": "rtb-0a"},
        {"subnetId": "subnet-0b", "availabilityZone": "us-gov-west-1b", "routeTableId": "rtb-0b"},
    ],
}


def with_cuda_12(key: str, **entry: Any) -> str:
    block = {"enabled": True, "modelsReason": {key: {"enabled": True, **entry}}}
    own = {"images": {"cuda": "cu128"}}
    return json.dumps({"app": {"pipelines": {"useNvidiaCosmos": block}, "cosmosBatch": own}})


def with_key() -> str:
    arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:nim-AbCdEf"
    return with_2b(enabled=True, engine="endpoint", endpoint={"url": "https://a/v1", "apiKeySecretArn": arn})
