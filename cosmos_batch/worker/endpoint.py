"""What a worker needs for a model on somebody else's server: the engine that asks it, and the key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.factory import create_engine
from cosmos_batch.engines.protocol import Engine, GuardrailEngine, LossyEngine
from cosmos_batch.worker.clients import Clients

if TYPE_CHECKING:
    from cosmos_batch.engines.generator.upsampling import Upsampler


@dataclass(frozen=True)
class ApiKey:
    """In Secrets Manager, where there is one. `secret` is its ARN."""

    secret: str | None
    clients: Clients

    def read(self) -> str | None:
        """The key, or None. Raises Failure (ModelUnavailable) where AWS does not give it."""
        if self.secret is None:
            return None
        try:
            value: str = self.clients.secretsmanager.get_secret_value(SecretId=self.secret)["SecretString"]
        except (ClientError, BotoCoreError, KeyError) as error:
            raise Failure(
                "ModelUnavailable",
                f"The secret of the endpoint's API key cannot be read: {error}",
                "Check that it exists and has a text for a value, and that the worker's role may read it and decrypt "
                "with its key (endpoint.apiKeySecretKeyArn).",
                retryable=True,
            ) from error
        return value.strip() or None


def upsampler_of(environment: WorkerEnvironment, clients: Clients) -> Upsampler | None:
    """Who writes prompts, if somebody does."""
    if environment.upsampler is None:
        return None
    from cosmos_batch.engines.generator.upsampling import Upsampler

    return Upsampler(environment.upsampler, ApiKey(environment.upsampler.api_key_secret_arn, clients).read)


def engine_of(environment: WorkerEnvironment, clients: Clients) -> Engine:
    """The engine of a worker, not loaded yet."""
    if environment.endpoint is None:
        engine = create_engine(environment.engine)
        if environment.serving is not None and isinstance(engine, GuardrailEngine):
            engine.guardrails = environment.serving.guardrails
        if environment.serving is not None and isinstance(engine, LossyEngine):
            engine.lossy = environment.serving.lossy
        return engine
    key = ApiKey(environment.endpoint.api_key_secret_arn, clients).read
    if environment.serving is None:
        from cosmos_batch.engines.reasoner.endpoint import EndpointEngine

        return EndpointEngine(environment.endpoint, key)
    from cosmos_batch.engines.generator.vllm_omni.endpoint import OmniEndpointEngine

    generator = OmniEndpointEngine(environment.endpoint, key)
    generator.guardrails = environment.serving.guardrails
    return generator
