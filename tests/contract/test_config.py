"""config.json: the seed's block loads unchanged, and an error says where, what, and what else."""

import json
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract import Config, ConfigError

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


def test_the_seeds_block_loads_unchanged() -> None:
    config = Config.parse(json.dumps(SEED))
    two, eight = config.enabled_pipelines()
    assert (two.pipeline.id, two.model, two.max_vcpus) == ("cosmos-reason2-2b", "nvidia/Cosmos-Reason2-2B", 192)
    assert two.instance_types == ["g6e.12xlarge", "g5.12xlarge"]
    assert (eight.pipeline.id, eight.model) == ("cosmos-reason2-8b", "nvidia/Cosmos-Reason2-8B")
    assert eight.instance_types == ["g6e.12xlarge", "g6e.24xlarge"]
    assert config.cosmos.hugging_face_token.get_secret_value() == "hf_yourTokenHere"


def test_the_defaults_are_those_of_the_seeds_table() -> None:
    cosmos = Config.parse("{}").cosmos
    assert not cosmos.enabled
    assert cosmos.hugging_face_token.get_secret_value() == ""
    assert not cosmos.use_warm_instances
    assert cosmos.warm_instance_count == 1
    assert cosmos.use_code_build
    for entry in (cosmos.models_reason.reason_2b, cosmos.models_reason.reason_8b):
        assert not entry.enabled
        assert entry.auto_register_with_vams
        assert entry.max_vcpus == 192
        assert entry.auto_trigger_on_file_extensions_upload == ""
    two, eight = Config.parse(
        with_cosmos(modelsReason={"reason2B": {"enabled": True}, "reason8B": {"enabled": True}})
    ).enabled_pipelines()
    assert two.instance_types == ["g6e.12xlarge", "g5.12xlarge"]
    assert eight.instance_types == ["g6e.12xlarge", "g6e.24xlarge"]


def with_nano(**changes: Any) -> str:
    entry = {"enabled": True, **changes}
    return json.dumps({"app": {"pipelines": {"useNvidiaCosmos3": {"enabled": True, "modelsOmni": {"nano16B": entry}}}}})


def with_own(**blocks: Any) -> str:
    return json.dumps({"app": {"cosmosBatch": blocks}})


def test_a_generator_falls_back_to_larger_hosts() -> None:
    (nano,) = Config.parse(with_nano()).enabled_pipelines()
    assert nano.instance_types == ["g6e.12xlarge", "g6e.24xlarge", "g6e.48xlarge"]
    (nano,) = Config.parse(with_nano(instanceTypes=["g6e.24xlarge"])).enabled_pipelines()
    assert nano.instance_types == ["g6e.24xlarge", "g6e.48xlarge"]
    (nano,) = Config.parse(with_nano(fallbackInstanceTypes=[])).enabled_pipelines()
    assert nano.instance_types == ["g6e.12xlarge", "g6e.24xlarge"]


def test_a_default_fallback_gives_way_to_spot() -> None:
    (nano,) = Config.parse(with_nano(useSpot=True)).enabled_pipelines()
    assert nano.use_spot
    assert nano.instance_types == ["g6e.12xlarge", "g6e.24xlarge"]


def test_warm_instances_fill_every_gpu() -> None:
    (two,) = Config.parse(
        with_cosmos(useWarmInstances=True, warmInstanceCount=2, modelsReason={"reason2B": {"enabled": True}})
    ).enabled_pipelines()
    assert (two.warm_instances, two.warm_workers) == (2, 8)
    assert round(two.warm_dollars_per_month) == 15320


def test_cold_pools_keep_nothing() -> None:
    (two,) = Config.parse(with_2b()).enabled_pipelines()
    assert (two.warm_workers, two.warm_dollars_per_month) == (0, 0)


EXISTING: dict[str, Any] = {
    "vpcId": "vpc-0123456789abcdef0",
    "cidr": "10.4.0.0/16",
    "subnets": [
        {"subnetId": "subnet-0a", "availabilityZone": "us-east-1a", "routeTableId": "rtb-0a"},
        {"subnetId": "subnet-0b", "availabilityZone": "us-gov-west-1b", "routeTableId": "rtb-0b"},
    ],
}


def test_interface_endpoints_are_for_vpc_only_mode() -> None:
    def endpoints(**network: Any) -> list[str]:
        return Config.parse(with_own(network=network)).own.network.interface_endpoints

    assert endpoints() == endpoints(mode="public") == endpoints(existing=EXISTING) == []
    assert "ecr.dkr" in endpoints(mode="vpcOnly")
    assert endpoints(mode="vpcOnly", existing=EXISTING) == []
    assert endpoints(mode="vpcOnly", existing={**EXISTING, "interfaceEndpoints": ["sqs"]}) == ["sqs"]


def test_the_dynamodb_endpoint_is_for_vpc_only_mode_and_in_an_existing_vpc_for_who_asks() -> None:
    def endpoint(**network: Any) -> bool:
        return Config.parse(with_own(network=network)).own.network.dynamodb_gateway_endpoint

    assert endpoint(mode="vpcOnly")
    assert endpoint(mode="vpcOnly", existing={**EXISTING, "dynamodbGatewayEndpoint": True})
    assert not (endpoint() or endpoint(mode="public") or endpoint(mode="vpcOnly", existing=EXISTING))


def test_only_a_vpc_of_our_own_is_known_to_have_no_way_to_secrets() -> None:
    def reached(**network: Any) -> bool:
        return Config.parse(with_own(network=network)).own.network.reaches_secrets

    assert not reached(mode="vpcOnly")
    assert reached() and reached(mode="public") and reached(mode="vpcOnly", existing=EXISTING)


def test_nothing_is_enabled_unless_the_whole_is() -> None:
    assert Config.parse(with_cosmos(enabled=False)).enabled_pipelines() == []


@pytest.mark.parametrize(("ours", "theirs"), [("", "b-1"), ("in/", "b-1"), ("", "b-1/pipelines/")])
def test_a_bucket_whose_uploads_vams_runs_may_not_trigger_too(ours: str, theirs: str) -> None:
    def parse(trigger: bool) -> Config:
        storage = {"assetBuckets": [{"name": "b-1", "prefix": ours, "triggerOnUpload": trigger}]}
        vams = {"version": "2.6", "buckets": ["b-1/pipelines/", theirs] if "/" not in theirs else [theirs]}
        return Config.parse(json.dumps({"app": {"cosmosBatch": {"storage": storage, "vams": vams}}}))

    parse(trigger=False)
    with pytest.raises(ConfigError, match=r"twice.*triggerOnUpload"):
        parse(trigger=True)


@pytest.mark.parametrize(("total", "warm"), [(4, 0), (40, 1)])
def test_a_total_that_lets_no_worker_start_or_the_warm_ones_not_stay(total: int, warm: int) -> None:
    cosmos = {"enabled": True, "modelsReason": {"reason2B": {"enabled": True}}}
    cosmos |= {"useWarmInstances": True, "warmInstanceCount": warm} if warm else {}
    own = {"scaling": {"maxTotalVCpus": total}}
    with pytest.raises(ConfigError, match=r"maxTotalVCpus: is .* vCPUs"):
        Config.parse(json.dumps({"app": {"pipelines": {"useNvidiaCosmos": cosmos}, "cosmosBatch": own}}))


def test_disabled_blocks_of_a_vams_configuration_load_too() -> None:
    block = {"text2world7B": {"enabled": False, "instanceTypes": ["x"]}}
    Config.parse(with_cosmos(modelsPredict=block, modelsTransfer={"transfer": {"enabled": False}}))


def test_the_token_is_not_shown() -> None:
    assert "hf_yourTokenHere" not in repr(Config.parse(json.dumps(SEED)))


def with_cuda_12(key: str, **entry: Any) -> str:
    block = {"enabled": True, "modelsReason": {key: {"enabled": True, **entry}}}
    own = {"images": {"cuda": "cu128"}}
    return json.dumps({"app": {"pipelines": {"useNvidiaCosmos": block}, "cosmosBatch": own}})


def test_the_image_for_cuda_12_serves_what_its_vllm_knows() -> None:
    for text in (with_cuda_12("reason2B"), with_cuda_12("reasonSuper", engine="transformers")):
        assert len(Config.parse(text).enabled_pipelines()) == 1


def with_key() -> str:
    arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:nim-AbCdEf"
    return with_2b(enabled=True, engine="endpoint", endpoint={"url": "https://a/v1", "apiKeySecretArn": arn})


def test_an_endpoint_is_its_pipelines_alone() -> None:
    [enabled] = Config.parse(with_key()).enabled_pipelines()
    assert enabled.endpoint is not None and enabled.endpoint.url == "https://a/v1"
    assert enabled.image == "reasoner"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (with_2b(instanceTypes=["g6e.12xlarg"]), ["reason2B.instanceTypes[0]", "g6e.12xlarg", "g6e.12xlarge"]),
        (with_2b(instanceTypes=[]), ["reason2B.instanceTypes", "at least 1"]),
        (with_2b(instanceTypes=["g6e.12xlarge", "g6e.12xlarge"]), ["reason2B.instanceTypes", "twice"]),
        (with_2b(maxVCpus="many"), ["reason2B.maxVCpus", "'many'", "integer"]),
        (with_2b(maxVCpus=4), ["reason2B.maxVCpus", "4", "12 or more"]),
        (with_2b(enabled="yes"), ["reason2B.enabled", "'yes'", "boolean"]),
        (with_2b(autoTriggerOnFileExtensionsUpload=".mp4,.gif"), ["autoTriggerOnFileExtensionsUpload", ".gif", ".png"]),
        (with_2b(model="../../etc/passwd"), ["reason2B.model", "../../etc/passwd"]),
        (with_2b(engine="vlm"), ["reason2B.engine", "vlm", "transformers"]),
        (with_2b(colour="red"), ["reason2B.colour", "unknown field"]),
        (with_2b(engine="cosmos-framework-reasoner"), ["reason2B.engine", "Cosmos 3", "vllm"]),
        (with_2b(engine="endpoint"), ["reason2B", "endpoint: belongs to the engine 'endpoint'"]),
        (with_2b(endpoint={"url": "https://a/v1"}), ["reason2B", "endpoint: belongs to the engine 'endpoint'"]),
        (with_2b(engine="endpoint", endpoint={"url": "a/v1"}), ["reason2B.endpoint.url", "a/v1", "http"]),
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
        (with_nano(instanceTypes=["p5.48xlarge"]), ["nano16B.instanceTypes", "8 H100", "p5.4xlarge"]),
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
        Config.parse(text)
    for word in words:
        assert word in str(raised.value)


def test_an_error_does_not_show_the_token() -> None:
    with pytest.raises(ConfigError) as raised:
        Config.parse(with_cosmos(huggingFaceToken=["hf_secret"]))
    assert "huggingFaceToken" in str(raised.value)
    assert "hf_secret" not in str(raised.value)


def test_every_error_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        Config.parse(with_2b(maxVCpus="many", enabled="yes"))
    assert len(str(raised.value).splitlines()) == 2


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.json"):
        Config.load(tmp_path / "missing.json")
