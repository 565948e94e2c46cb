"""The configuration of a server that runs the model in place of the workers."""

from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator, model_validator

from cosmos_batch.catalogue.engines import ENDPOINT_DEFAULTS, EndpointApi
from cosmos_batch.contract.base import Model
from cosmos_batch.contract.storage import KMS_KEY_ARN

WHOLE_ARN = r"^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:\d{12}:secret:[\w/+=.@-]+-[A-Za-z0-9]{6}$"
_OWN_MACHINE = ("localhost", "127.0.0.1", "::1")


class Endpoint(Model):
    """A server that speaks OpenAI chat completions (a NIM container, vLLM, a service), or of a generator vLLM-Omni or a
    NIM."""

    url: str = Field(
        max_length=1024,
        description="Base URL of its API, such as http://10.0.1.7:8000/v1; workers must be able to reach it",
    )
    api: EndpointApi = Field(
        default="openai",
        description="Its interface: 'openai' is that of vLLM, of vLLM-Omni and of NIMs of a reasoner, 'nim' is "
        "`POST /v1/infer`, which NIMs of Cosmos 3's generator speak",
    )
    model: str | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        description="Name of the model on the server, for api 'nim' its variant, such as super-t2i; may be absent if "
        "it has only one",
    )
    api_key_secret_arn: str | None = Field(
        default=None,
        pattern=WHOLE_ARN,
        description="A secret whose value is the API key; its whole ARN. Workers alone read it",
    )
    api_key_secret_key_arn: str | None = Field(
        default=None, pattern=KMS_KEY_ARN, description="The customer key that encrypts that secret, if one does"
    )
    context: int = Field(
        default=16_384,
        ge=1024,
        le=1_048_576,
        description="Tokens of a reasoner's context, if `/v1/models` does not report them",
    )
    concurrency: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Requests of one worker at once: by default 32, and 1 with api 'nim', because those that wait in "
        "a NIM for one another use up the time in which it must answer",
    )
    timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        le=36_000,
        description="Longest time in which the server must answer a request: by default 900, and 2000 with api 'nim', "
        "which is longer than a NIM's own limit of 1800",
    )

    @property
    def requests_at_once(self) -> int:
        """Return how many requests a worker sends at once."""
        return self.concurrency or ENDPOINT_DEFAULTS[self.api].requests_at_once

    @property
    def answer_seconds(self) -> int:
        """Return the longest time in which the server must answer a request."""
        return self.timeout_seconds or ENDPOINT_DEFAULTS[self.api].answer_seconds

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must begin with http:// or https:// and name a host")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("must not hold a user, a password, a query or a fragment; a key belongs into a secret")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _a_key_is_not_sent_in_the_clear(self) -> Self:
        parts = urlsplit(self.url)
        if self.api_key_secret_arn and parts.scheme == "http" and parts.hostname not in _OWN_MACHINE:
            raise ValueError("url: is http, by which an API key would be readable on its way; use https")
        if self.api_key_secret_key_arn and not self.api_key_secret_arn:
            raise ValueError("apiKeySecretKeyArn: there is no secret; give apiKeySecretArn too")
        return self


def _speaks_chat(endpoint: Endpoint) -> Endpoint:
    if endpoint.api != "openai":
        raise ValueError(
            f"api: {endpoint.api!r} is the interface of a generator's NIM; NIMs of reasoners speak OpenAI's protocol, "
            "so leave api out"
        )
    return endpoint


ChatEndpoint = Annotated[Endpoint, AfterValidator(_speaks_chat)]
"""A server whose model answers in text."""
