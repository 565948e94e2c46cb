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


def test_nothing_is_enabled_unless_the_whole_is() -> None:
    assert Config.parse(with_cosmos(enabled=False)).enabled_pipelines() == []


def test_disabled_blocks_of_a_vams_configuration_load_too() -> None:
    block = {"text2world7B": {"enabled": False, "instanceTypes": ["x"]}}
    Config.parse(with_cosmos(modelsPredict=block, modelsTransfer={"transfer": {"enabled": False}}))


def test_the_token_is_not_shown() -> None:
    assert "hf_yourTokenHere" not in repr(Config.parse(json.dumps(SEED)))


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
        (with_cosmos(modelsPredict={"a": {"enabled": True}}), ["modelsPredict", "a is not served"]),
        (with_cosmos(modelsReason={"reason8B": {"instanceTypes": ["g5.12xlarge"]}}), ["reason8B", "24 GB", "32"]),
        (with_cosmos(warmInstanceCount=0), ["warmInstanceCount", "0", "greater than or equal to 1"]),
        ('{"app": {"cosmosBatch": {"worker": {"attemptLimitHours": 12}}}}', ["attemptLimitHours", "12", "11"]),
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
