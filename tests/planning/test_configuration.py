"""Configurations that are valid, and the deployments that follow from them."""

import json
from typing import Any

import pytest

from cosmos_batch.contract.config import Config
from cosmos_batch.planning.configuration import ConfigError, parse_config
from cosmos_batch.planning.deployment import enabled_pipelines
from tests.support.configurations import (
    EXISTING,
    SEED,
    with_2b,
    with_cosmos,
    with_cuda_12,
    with_key,
    with_nano,
    with_own,
)


def test_the_block_of_a_vams_configuration_loads_unchanged() -> None:
    config = parse_config(json.dumps(SEED))
    two, eight = enabled_pipelines(config)
    assert (two.pipeline.id, two.model, two.max_vcpus) == ("cosmos-reason2-2b", "nvidia/Cosmos-Reason2-2B", 192)
    assert two.instance_types == ["g6e.12xlarge", "g5.12xlarge"]
    assert (eight.pipeline.id, eight.model) == ("cosmos-reason2-8b", "nvidia/Cosmos-Reason2-8B")
    assert eight.instance_types == ["g6e.12xlarge", "g6e.24xlarge"]
    assert config.cosmos.hugging_face_token.get_secret_value() == "hf_yourTokenHere"


def test_an_empty_configuration_has_the_defaults_of_the_reasoners() -> None:
    cosmos = parse_config("{}").cosmos
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
    two, eight = enabled_pipelines(
        parse_config(with_cosmos(modelsReason={"reason2B": {"enabled": True}, "reason8B": {"enabled": True}}))
    )
    assert two.instance_types == eight.instance_types == ["g6e.2xlarge", "g6e.4xlarge"]


def test_a_generator_falls_back_to_larger_hosts() -> None:
    (nano,) = enabled_pipelines(parse_config(with_nano()))
    assert nano.instance_types == ["g6e.12xlarge", "g6e.24xlarge", "g6e.48xlarge"]
    (nano,) = enabled_pipelines(parse_config(with_nano(instanceTypes=["g6e.24xlarge"])))
    assert nano.instance_types == ["g6e.24xlarge", "g6e.48xlarge"]
    (nano,) = enabled_pipelines(parse_config(with_nano(fallbackInstanceTypes=[])))
    assert nano.instance_types == ["g6e.12xlarge", "g6e.24xlarge"]


def test_default_fallbacks_that_cost_much_more_are_listed() -> None:
    (nano,) = enabled_pipelines(parse_config(with_nano()))
    assert nano.costly_fallbacks == ["g6e.48xlarge"]  # $30 an hour for $10
    (named,) = enabled_pipelines(parse_config(with_nano(fallbackInstanceTypes=["g6e.48xlarge"])))
    assert named.instance_types == nano.instance_types and named.costly_fallbacks == []
    (without,) = enabled_pipelines(parse_config(with_nano(fallbackInstanceTypes=[])))
    assert without.costly_fallbacks == []
    entry = {"enabled": True, "instanceTypes": ["g6e.12xlarge"]}
    (cheaper,) = enabled_pipelines(
        parse_config(with_cosmos(modelsReason={"reasonNano": entry}))
    )  # its fallback, p5.4xlarge, costs less than what is preferred
    assert cheaper.default_fallbacks == ["p5.4xlarge"] and cheaper.costly_fallbacks == []


def test_spot_takes_the_place_of_a_default_fallback() -> None:
    (nano,) = enabled_pipelines(parse_config(with_nano(useSpot=True)))
    assert nano.use_spot
    assert nano.instance_types == ["g6e.12xlarge", "g6e.24xlarge"]


def test_warm_instances_fill_every_gpu() -> None:
    (two,) = enabled_pipelines(
        parse_config(
            with_cosmos(
                useWarmInstances=True,
                warmInstanceCount=2,
                modelsReason={"reason2B": {"enabled": True, "instanceTypes": ["g6e.12xlarge"]}},
            )
        )
    )
    assert (two.warm_instances, two.warm_workers) == (2, 8)
    assert round(two.warm_dollars_per_month) == 15320


def test_without_warm_instances_no_worker_stays() -> None:
    (two,) = enabled_pipelines(parse_config(with_2b()))
    assert (two.warm_workers, two.warm_dollars_per_month) == (0, 0)


def test_interface_endpoints_are_created_in_vpc_only_mode() -> None:
    def endpoints(**network: Any) -> list[str]:
        return parse_config(with_own(network=network)).own.network.interface_endpoints

    assert endpoints() == endpoints(mode="public") == endpoints(existing=EXISTING) == []
    assert "ecr.dkr" in endpoints(mode="vpcOnly")
    assert endpoints(mode="vpcOnly", existing=EXISTING) == []
    assert endpoints(mode="vpcOnly", existing={**EXISTING, "interfaceEndpoints": ["sqs"]}) == ["sqs"]


def test_the_dynamodb_endpoint_is_created_in_vpc_only_mode_and_on_request_in_an_existing_vpc() -> None:
    def endpoint(**network: Any) -> bool:
        return parse_config(with_own(network=network)).own.network.dynamodb_gateway_endpoint

    assert endpoint(mode="vpcOnly")
    assert endpoint(mode="vpcOnly", existing={**EXISTING, "dynamodbGatewayEndpoint": True})
    assert not (endpoint() or endpoint(mode="public") or endpoint(mode="vpcOnly", existing=EXISTING))


def test_workers_cannot_reach_secrets_in_a_vpc_only_network_that_is_created() -> None:
    def reached(**network: Any) -> bool:
        return parse_config(with_own(network=network)).own.network.reaches_secrets

    assert not reached(mode="vpcOnly")
    assert reached() and reached(mode="public") and reached(mode="vpcOnly", existing=EXISTING)


def test_no_pipeline_is_enabled_while_its_block_is_disabled() -> None:
    assert enabled_pipelines(parse_config(with_cosmos(enabled=False))) == []


@pytest.mark.parametrize(("ours", "theirs"), [("", "b-1"), ("in/", "b-1"), ("", "b-1/pipelines/")])
def test_uploads_to_a_bucket_of_vams_cannot_start_runs_here_too(ours: str, theirs: str) -> None:
    def parse(trigger: bool) -> Config:
        storage = {"assetBuckets": [{"name": "b-1", "prefix": ours, "triggerOnUpload": trigger}]}
        vams = {"version": "2.6", "buckets": ["b-1/pipelines/", theirs] if "/" not in theirs else [theirs]}
        return parse_config(json.dumps({"app": {"cosmosBatch": {"storage": storage, "vams": vams}}}))

    parse(trigger=False)
    with pytest.raises(ConfigError, match=r"twice.*triggerOnUpload"):
        parse(trigger=True)


@pytest.mark.parametrize(("total", "warm"), [(4, 0), (15, 2)])
def test_a_total_below_one_worker_or_the_warm_workers_is_refused(total: int, warm: int) -> None:
    cosmos = {"enabled": True, "modelsReason": {"reason2B": {"enabled": True}}}
    cosmos |= {"useWarmInstances": True, "warmInstanceCount": warm} if warm else {}
    own = {"scaling": {"maxTotalVCpus": total}}
    with pytest.raises(ConfigError, match=r"maxTotalVCpus: is .* vCPUs"):
        parse_config(json.dumps({"app": {"pipelines": {"useNvidiaCosmos": cosmos}, "cosmosBatch": own}}))


def test_disabled_blocks_of_a_vams_configuration_load() -> None:
    block = {"text2world7B": {"enabled": False, "instanceTypes": ["x"]}}
    parse_config(with_cosmos(modelsPredict=block, modelsTransfer={"transfer": {"enabled": False}}))


def test_a_configuration_does_not_show_its_token() -> None:
    assert "hf_yourTokenHere" not in repr(parse_config(json.dumps(SEED)))


def test_cuda_12_is_accepted_for_engines_that_support_the_models() -> None:
    for text in (with_cuda_12("reason2B"), with_cuda_12("reasonSuper", engine="transformers")):
        assert len(enabled_pipelines(parse_config(text))) == 1


def test_fp8_of_a_reasoner_is_off_by_default_and_reaches_workers_and_identity() -> None:
    (usual,) = enabled_pipelines(parse_config(with_2b(engine="vllm", instanceTypes=["g6e.2xlarge"])))
    (fp8,) = enabled_pipelines(parse_config(with_2b(engine="vllm", instanceTypes=["g6e.2xlarge"], lossy=["fp8"])))
    assert list(usual.lossy) == [] and list(fp8.lossy) == ["fp8"]
    assert fp8.identity.configuration != usual.identity.configuration, "an answer in FP8 is no answer in 16-bit"
    assert fp8.resources == usual.resources, "vLLM converts weights that it has loaded whole"


def test_an_endpoint_belongs_to_one_pipeline() -> None:
    [enabled] = enabled_pipelines(parse_config(with_key()))
    assert enabled.endpoint is not None and enabled.endpoint.url == "https://a/v1"
    assert enabled.image == "reasoner"
