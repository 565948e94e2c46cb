"""Generating with a NIM that a user runs, at an endpoint of the pipeline's configuration.

Inputs are prepared here and sent within the request. The NIM does not report its guardrails; the pipeline's
configuration tells whether it was started with them, and no request can switch them.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import httpx2
from pydantic import BaseModel, ValidationError

from cosmos_batch.catalogue.distillation import fixed_steps_of
from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.guardrails import NOT_VERIFIED, Checks
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import GeneratorOutput
from cosmos_batch.engines.checkpoints import refuse_other_steps
from cosmos_batch.engines.generator.nim.job import NimJob
from cosmos_batch.engines.job_files import generation_files
from cosmos_batch.engines.serving.dialect import dialect_of
from cosmos_batch.engines.serving.endpoint_engine import EndpointEngineBase
from cosmos_batch.engines.serving.remote_server import RemoteServer

_UNKNOWN = 404
_READY = "health/ready"
_ACTIONS_ALONE = "-droid"  # the end of the names of policies whose answers have no video


class NimMetadata(BaseModel):
    """The fields of the response to `GET /v1/metadata` that this engine reads."""

    model_type: Literal["generator", "reasoner"]
    model_variant: str | None = None


class NimEndpointEngine(EndpointEngineBase):
    """The engine for a model in a remote NIM. `api_key` returns the key of whatever is in front of it, or None."""

    guardrails = False
    """Whether the server was started with guardrails, by the pipeline's configuration."""

    def __init__(self, endpoint: Endpoint, api_key: Callable[[], str | None]) -> None:
        super().__init__("nim", "generation", endpoint, api_key, dialect_of("nim"), _READY)

    async def run(self, job: Job, workdir: Path) -> GeneratorOutput:
        """Do one job. Cancelling it closes the connection; the NIM has no other way to be told, and may go on.

        Raises Failure: InvalidInput or Blocked if the job is at fault, ModelUnavailable or EngineFailed if the server
        is.
        """
        assert job.generation is not None, "the plan function settles one for every generator job"
        server = self._connected()
        refuse_other_steps(job.generation, fixed_steps_of(self._model), self._model)
        with self._cancellation.scope() as check:
            nim_job = NimJob(workdir, self.guardrails, check)
            files = generation_files(job, workdir)
            prepared, body = await self._media_threads.run(job, nim_job.prepare, job.generation, files)
            output = await nim_job.generate(server, body, is_video=job.generation.is_video)
            checks = NOT_VERIFIED if self.guardrails else Checks()
            return await asyncio.to_thread(nim_job.write, output, prepared.generation, checks)

    def _models_of(self, server: RemoteServer) -> dict[str, Any]:
        """Return the variant that the NIM was started with, its only model, once it is ready; blocks.

        Raises Failure: ModelUnavailable if the server is no NIM of a generator that makes images or videos, or refuses
        the key; EngineFailed if it cannot be reached or does not get ready.
        """
        # While the container starts, only this path is documented to say so.
        ready = server.get_at_start(_READY)
        described = server.get_at_start("metadata")
        for response in (ready, described):
            if not response.is_success and response.status_code != _UNKNOWN:
                raise server.refusal(response)
        return {self._variant_in(described): None}

    def _variant_in(self, response: httpx2.Response) -> str:
        """Return the variant that metadata name. Raises Failure (ModelUnavailable) where they name none of use."""
        url = self._endpoint.url
        try:
            metadata = NimMetadata.model_validate_json(response.content)
        except ValidationError as error:
            raise Failure(
                "ModelUnavailable",
                f"{url}/metadata does not describe a NIM of Cosmos 3 (HTTP {response.status_code}).",
                "Check endpoint.url, its path /v1 included. If it is a server of vLLM-Omni, set endpoint.api to "
                "'openai'.",
            ) from error
        if metadata.model_type == "reasoner":
            raise Failure(
                "ModelUnavailable",
                f"{url} is a NIM of a reasoner.",
                "Start the container with NIM_MODEL_TYPE=generator, or name the address of one that was.",
            )
        if metadata.model_variant is None:
            raise Failure(
                "ModelUnavailable",
                f"{url} is a NIM of a generator, and {url}/metadata does not say of which variant.",
                "Start the container with NIM_MODEL_VARIANT, such as nano, in release 2.0 or later.",
            )
        if metadata.model_variant.endswith(_ACTIONS_ALONE):
            raise Failure(
                "ModelUnavailable",
                f"{url} serves {metadata.model_variant}, which answers with actions alone and makes no video.",
                "Start the container with another NIM_MODEL_VARIANT, such as nano.",
            )
        return metadata.model_variant
