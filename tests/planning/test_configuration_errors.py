"""Errors in a configuration name the field, its value and what is allowed."""

import json
from pathlib import Path

import pytest

from cosmos_batch.planning.configuration import ConfigError, load_config, parse_config
from tests.support.configurations import EXISTING, with_2b, with_cosmos, with_cuda_12, with_key, with_nano, with_own


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (with_2b(instanceTypes=["g6e.12xlarg"]), ["reason2B.instanceTypes[0]", "g6e.12xlarg", "g6e.12xlarge"]),
        (with_2b(instanceTypes=[]), ["reason2B.instanceTypes", "at least 1"]),
        (with_2b(instanceTypes=["g6e.12xlarge", "g6e.12xlarge"]), ["reason2B.instanceTypes", "twice"]),
        (with_2b(maxVCpus="many"), ["reason2B.maxVCpus", "'many'", "integer"]),
        (with_2b(maxVCpus=4), ["reason2B.maxVCpus", "4", "8 or more"]),
        (with_2b(enabled="yes"), ["reason2B.enabled", "'yes'", "boolean"]),
        (with_2b(autoTriggerOnFileExtensionsUpload=".mp4,.bmp"), ["autoTriggerOnFileExtensionsUpload", ".bmp", ".png"]),
        (with_2b(model="../../etc/passwd"), ["reason2B.model", "../../etc/passwd"]),
        (with_2b(engine="vlm"), ["reason2B.engine", "vlm", "transformers"]),
        (with_2b(colour="red"), ["reason2B.colour", "unknown field"]),
        ('{"pipelines": {}}', ["pipelines: unknown field in this place; it belongs into another part"]),
        (with_2b(engine="cosmos-framework-reasoner"), ["reason2B.engine", "Cosmos 3", "use 'vllm' or 'transformers'"]),
        (with_2b(engine="endpoint"), ["reason2B", "endpoint: belongs to the engine 'endpoint'"]),
        (with_2b(endpoint={"url": "https://a/v1"}), ["reason2B", "endpoint: belongs to the engine 'endpoint'"]),
        (with_2b(engine="endpoint", endpoint={"url": "a/v1"}), ["reason2B.endpoint.url", "a/v1", "http"]),
        (
            with_2b(engine="endpoint", endpoint={"url": "https://a/v1", "api": "nim"}),
            ["reason2B.endpoint", "api: 'nim'", "NIMs of reasoners speak OpenAI's protocol"],
        ),
        (
            json.dumps({"app": {**json.loads(with_key())["app"], "cosmosBatch": {"network": {"mode": "vpcOnly"}}}}),
            ["reason2B.endpoint.apiKeySecretArn", "vpcOnly", "Secrets Manager"],
        ),
        (with_cosmos(modelsPredict={"a": {"enabled": True}}), ["modelsPredict", "a is not served"]),
        (with_cosmos(modelsReason={"reason8B": {"instanceTypes": ["g5.12xlarge"]}}), ["reason8B", "24 GB", "32"]),
        (with_cosmos(warmInstanceCount=0), ["warmInstanceCount", "0", "greater than or equal to 1"]),
        ('{"app": {"cosmosBatch": {"worker": {"attemptLimitHours": 12}}}}', ["attemptLimitHours", "12", "11"]),
        (
            with_cosmos(
                huggingFaceTokenSecretArn="arn:aws-us-gov:secretsmanager:us-gov-west-1:123456789012:secret:a-AbCdEf"
            ),
            ["huggingFaceToken", "huggingFaceTokenSecretArn", "remove one"],
        ),
        (
            with_cosmos(useWarmInstances=True, warmInstanceCount=5),
            ["warmInstanceCount", "5 x g6e.12xlarge", "240 vCPUs", "reason2B.maxVCpus is 192"],
        ),
        (
            with_nano(instanceTypes=["g6e.12xlarge", "g6e.xlarge"]),
            ["nano16B.instanceTypes", "29 GiB", "g6e.xlarge", "48"],
        ),
        (with_2b(instanceTypes=["p5.48xlarge"]), ["reason2B.instanceTypes", "8 H100", "p5.4xlarge"]),
        (
            with_2b(fallbackInstanceTypes=["g6e.24xlarge", "p5.4xlarge"]),
            ["reason2B.fallbackInstanceTypes", "4 types", "3 compute environments"],
        ),
        (
            with_2b(fallbackInstanceTypes=["p5.4xlarge"], useSpot=True),
            ["reason2B.fallbackInstanceTypes", "3 types", "Spot takes one"],
        ),
        (with_2b(fallbackInstanceTypes=["p4d"]), ["fallbackInstanceTypes[0]", "p4d", "g6e.12xlarge"]),
        (with_nano(engine="transformers"), ["nano16B.engine", "transformers", "diffusers"]),
        (with_2b(lossy=["fp8"]), ["reason2B.lossy: auto has no fp8; use engine vllm, or leave fp8 out"]),
        (with_2b(engine="my.module:Engine", lossy=["fp8"]), ["reason2B.lossy: my.module:Engine has no fp8"]),
        (with_2b(engine="vllm", lossy=["stepCache"]), ["reason2B.lossy: vllm has no stepCache; leave stepCache out"]),
        (with_2b(engine="vllm", lossy=["fp8", "fp8"]), ["reason2B.lossy", "names a mode twice"]),
        (
            with_2b(engine="vllm", lossy=["fp8"], instanceTypes=["g5.12xlarge"]),
            ["reason2B.lossy: fp8 needs a GPU of compute capability 8.9 or later", "g5.12xlarge has A10G (8.6)"],
        ),
        (
            with_2b(engine="vllm", lossy=["gpuDecode", "fp8Cache"], instanceTypes=["g5.12xlarge"]),
            ["reason2B.lossy: fp8Cache needs a GPU of compute capability 8.9 or later"],
        ),
        (with_2b(engine="transformers", lossy=["gpuDecode"]), ["reason2B.lossy: transformers has no gpuDecode"]),
        (
            with_cosmos(modelsReason={"reasonSuper": {"instanceTypes": ["g5.12xlarge"]}}),
            ["reasonSuper.instanceTypes", "24 GB per GPU", "4 x 48 GB"],
        ),
        (with_cuda_12("reasonNano"), ["images.cuda", "cu130", "reasonNano.engine"]),
        (with_own(network={"cidr": "172.17.4.0/22"}), ["network", "cidr", "172.17.0.0/16", "Docker"]),
        (
            with_own(network={"cidr": "10.1.0.0/16", "reservedCidrs": ["10.0.0.0/8"]}),
            ["network", "cidr", "10.1.0.0/16", "10.0.0.0/8", "reservedCidrs"],
        ),
        (with_own(network={"cidr": "10.0.0.0/8"}), ["network", "cidr", "/16 to /24"]),
        (with_own(network={"cidr": "10.0.0.1/16"}), ["network.cidr", "10.0.0.1/16", "host bits"]),
        (with_own(network={"cidr": "10.0.0.0/255.255.0.0"}), ["network.cidr", "write 10.0.0.0/16"]),
        (
            with_own(network={"cidr": "10.0.0.0/24", "availabilityZones": [f"us-east-1{zone}" for zone in "abcd"]}),
            ["network", "cidr: 10.0.0.0/24", "4 zones", "'private'", "availabilityZones"],
        ),
        (
            with_own(network={"cidr": "10.0.0.0/23", "availabilityZones": [f"us-east-1{zone}" for zone in "abcdefg"]}),
            ["network", "cidr: 10.0.0.0/23", "7 zones"],
        ),
        (with_own(network={"availabilityZones": ["nowhere"]}), ["network.availabilityZones[0]", "nowhere", "pattern"]),
        (
            with_own(network={"availabilityZones": ["us-east-1a", "us-east-1b", "us-east-1a"]}),
            ["network.availabilityZones", "us-east-1a more than once"],
        ),
        (
            with_own(network={"existing": {**EXISTING, "subnets": EXISTING["subnets"][:1] * 2}}),
            ["network.existing.subnets", "subnet-0a more than once"],
        ),
        (
            with_own(network={"mode": "vpcOnly", "existing": {**EXISTING, "interfaceEndpoints": ["sqs", "sqs"]}}),
            ["network.existing.interfaceEndpoints", "sqs more than once"],
        ),
        (with_own(network={"existing": EXISTING, "cidr": "10.1.0.0/16"}), ["network", "cidr", "existing"]),
        (
            with_own(network={"existing": {**EXISTING, "cidr": "172.17.0.0/20"}}),
            ["network", "existing.cidr", "172.17.0.0/20", "Docker"],
        ),
        (
            with_own(network={"existing": {**EXISTING, "interfaceEndpoints": ["sqs"]}}),
            ["network", "existing.interfaceEndpoints", "vpcOnly"],
        ),
        (with_own(operations={"monthlyBudgetDollars": 5}), ["operations.monthlyBudgetDollars", "alarmEmail"]),
        (with_own(operations={"logRetentionDays": 31}), ["operations.logRetentionDays", "31", "30, 60"]),
        (with_own(operations={"alarmEmail": "me"}), ["operations.alarmEmail", "'me'"]),
        (with_own(worker={"maxLifeHours": 4}), ["worker", "attemptLimitHours", "8", "maxLifeHours, 4"]),
        (with_own(scaling={"stuckMinutes": 5}), ["scaling.stuckMinutes", "5", "10"]),
        (with_own(images={"cuda": "cu12"}), ["images.cuda", "cu12", "cu128"]),
        (with_own(storage={"createAssetBucket": False}), ["storage", "assetBuckets", "createAssetBucket"]),
        (
            with_own(storage={"assetBuckets": [{"name": "theirs"}, {"name": "theirs"}]}),
            ["storage", "assetBuckets", "twice"],
        ),
        (
            with_own(storage={"assetBuckets": [{"name": "theirs", "prefix": "no-slash"}]}),
            ["storage.assetBuckets[0].prefix", "no-slash"],
        ),
        (with_own(storage={"kmsKey": "alias/mine"}), ["storage.kmsKey", "alias/mine", "create"]),
        ("{", ["Invalid JSON"]),
        ("[]", ["the whole", "should be an object"]),
    ],
)
def test_an_error_names_field_value_and_what_is_allowed(text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config(text)
    for word in words:
        assert word in str(raised.value)


def test_an_error_does_not_show_the_token() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config(with_cosmos(huggingFaceToken=["hf_secret"]))
    assert "huggingFaceToken" in str(raised.value)
    assert "hf_secret" not in str(raised.value)


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config(with_2b(maxVCpus="many", enabled="yes"))
    assert len(str(raised.value).splitlines()) == 2


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.json"):
        load_config(tmp_path / "missing.json")
