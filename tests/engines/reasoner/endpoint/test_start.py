"""An endpoint's configuration, and choosing a model on its server."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.reasoner.endpoint import EndpointEngine
from tests.engines.reasoner.endpoint.conftest import MODEL, Server, error


def test_the_context_is_the_servers_or_else_the_configured_context(
    server: Server, load: Callable[..., EndpointEngine]
) -> None:
    assert load()._checkpoint.context == 4096
    server.models = (200, {"data": [{"id": MODEL}]})
    assert load()._checkpoint.context == 16_384
    engine = load(context=2048)
    assert f"serves {MODEL}; context of 2,048 tokens" in engine.startup_logs[-1]


@pytest.mark.parametrize(
    ("models", "wanted", "message"),
    [
        ((200, {"data": [{"id": "a"}, {"id": "b"}]}), None, "has 2 models. It serves: a, b."),
        ((200, {"data": [{"id": "a"}]}), "c", "has no model 'c'. It serves: a."),
        ((200, {"data": []}), None, "serves no model."),
        ((200, {"hello": 1}), None, "did not return a list of models"),
        ((200, "<html>"), None, "did not return a list of models"),
        (error(404), None, "does not know what was asked"),
        (error(401), None, "wants an API key"),
    ],
)
def test_a_server_without_the_model_is_refused_at_the_start(
    server: Server, load: Callable[..., EndpointEngine], models: tuple[int, Any], wanted: str | None, message: str
) -> None:
    server.models = models
    with pytest.raises(Failure) as raised:
        load(model=wanted)
    assert (raised.value.error.code, raised.value.error.retryable) == ("ModelUnavailable", False)
    assert message in raised.value.error.message


def test_the_configured_model_is_chosen_of_several(server: Server, load: Callable[..., EndpointEngine]) -> None:
    server.models = (200, {"data": [{"id": "a"}, {"id": "b"}]})
    assert load(model="b")._model == "b"


@pytest.mark.parametrize("status", [500, 503, 408, 521, 530])
def test_a_starting_server_is_waited_for(server: Server, load: Callable[..., EndpointEngine], status: int) -> None:
    server.models = error(status)
    threading.Timer(0.03, lambda: setattr(server, "models", (200, {"data": [{"id": "late"}]}))).start()
    assert load()._model == "late"


ARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:nim-AbCdEf"
KEY_ARN = "arn:aws:kms:eu-west-1:123456789012:key/12345678-1234-1234-1234-123456789012"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"url": "ftp://host/v1"}, "must begin with http"),
        ({"url": "https://"}, "name a host"),
        ({"url": "https://user:password@host/v1"}, "must not hold"),
        ({"url": "https://host/v1?key=1"}, "must not hold"),
        ({"url": "http://10.0.0.1:8000/v1", "apiKeySecretArn": ARN}, "use https"),
        (
            {"apiKeySecretKeyArn": KEY_ARN},
            "give apiKeySecretArn too",
        ),
        ({"apiKeySecretArn": "nvapi-secret"}, "apiKeySecretArn"),
        ({"concurrency": 0}, "concurrency"),
    ],
)
def test_an_invalid_endpoint_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Endpoint.model_validate({"url": "https://host/v1", **changes})


def test_an_endpoint_is_https_or_on_this_machine() -> None:
    assert Endpoint(url="https://integrate.api.nvidia.com/v1/", api_key_secret_arn=ARN).url.endswith("/v1")
    assert Endpoint(url="http://127.0.0.1:8000/v1", api_key_secret_arn=ARN)
