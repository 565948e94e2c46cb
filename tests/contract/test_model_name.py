"""The field `model` of a pipeline: a Hugging Face id with or without a revision, or a folder."""

import json

import pytest

from cosmos_batch.contract.model_name import ModelName
from cosmos_batch.planning.configuration import ConfigError, parse_config
from cosmos_batch.planning.deployment import EnabledPipeline, enabled_pipelines

COMMIT = "7d6c1a6f2c2a4b6d8f0e1a2b3c4d5e6f7a8b9c0d"


def enabled(model: str) -> EnabledPipeline:
    models = {"reason2B": {"enabled": True, "model": model}}
    block = {"useNvidiaCosmos": {"enabled": True, "modelsReason": models}}
    (found,) = enabled_pipelines(parse_config(json.dumps({"app": {"pipelines": block}})))
    return found


@pytest.mark.parametrize(
    ("text", "model", "revision"),
    [
        ("org/name", "org/name", "main"),
        ("org/name@v1.2", "org/name", "v1.2"),
        ("org/name@refs/pr/3", "org/name", "refs/pr/3"),
        (f"org/name@{COMMIT}", "org/name", COMMIT),
        ("/models/a@home", "/models/a@home", "main"),
    ],
)
def test_a_model_name_is_parsed(text: str, model: str, revision: str) -> None:
    assert ModelName.parse(text) == ModelName(model, revision)
    assert (enabled(text).model, enabled(text).revision) == (model, revision)
    assert enabled(text).models == [model], "what is granted in S3 is the model's, whatever its revision"


def test_a_job_is_planned_for_a_configured_commit_at_once_and_for_a_tag_when_it_is_recorded() -> None:
    assert enabled(f"org/name@{COMMIT}").identity.revision == COMMIT
    assert enabled("org/name@v1").identity.revision is None
    assert enabled("org/name@v1").identity.configuration != enabled("org/name").identity.configuration
    assert enabled("org/name@main").identity == enabled("org/name").identity


@pytest.mark.parametrize("text", ["org/name@", "org/name@-x", "org@v1", "org/name@a b"])
def test_invalid_revisions_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="model"):
        enabled(text)
