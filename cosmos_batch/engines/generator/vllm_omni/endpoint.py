"""Generating with a vLLM-Omni server that no worker started, at an endpoint of the pipeline's configuration.

Inputs are prepared here and sent within the request, because the server sees none of our files. Its API does not tell
whether it loaded guardrails; the pipeline's configuration does.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from cosmos_batch.catalogue.distillation import fixed_steps_of
from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.generation.guardrails import NOT_VERIFIED, Checks
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import GeneratorOutput
from cosmos_batch.engines.checkpoints import refuse_other_steps
from cosmos_batch.engines.errors import ServerUnavailable
from cosmos_batch.engines.generator.vllm_omni.job import OmniJob
from cosmos_batch.engines.job_files import generation_files
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.serving.dialect import dialect_of
from cosmos_batch.engines.serving.endpoint_engine import EndpointEngineBase
from cosmos_batch.engines.serving.remote_server import RemoteServer

_UNCONFIRMED_STEPS = (
    "Steps and guidance scale are those of the request. The server does not report the ones that it used: with a "
    "distilled checkpoint it uses its own."
)
_UNKNOWN = 404
_FORBIDDEN = (401, 403)


class OmniEndpointEngine(EndpointEngineBase):
    """The engine for a model on a remote vLLM-Omni server. `api_key` returns the server's key, or None."""

    guardrails = False
    """Whether the server was started with guardrails, by the pipeline's configuration."""

    def __init__(self, endpoint: Endpoint, api_key: Callable[[], str | None]) -> None:
        super().__init__("vllm-omni", "generation", endpoint, api_key, dialect_of("vllm-omni"))

    async def run(self, job: Job, workdir: Path) -> GeneratorOutput:
        """Do one job. Cancelling it deletes it on the server.

        Raises Failure: InvalidInput if the job is at fault, ModelUnavailable or EngineFailed if the server is.
        """
        assert job.generation is not None, "the plan function settles one for every generator job"
        server = self._connected()
        if fixed_steps := fixed_steps_of(self._model):  # the name of another model tells nothing
            refuse_other_steps(job.generation, fixed_steps, self._model)
        with self._cancellation.scope() as check:
            omni_job = OmniJob(workdir, count=None, shares_files=False, check=check)
            files = generation_files(job, workdir)
            request = await self._media_threads.run(job, omni_job.prepare, job.generation, files)
            output = await omni_job.generate(request, partial(_send, server, omni_job.journal))
            checks = NOT_VERIFIED if job.generation.guardrails else Checks()
            written = await asyncio.to_thread(omni_job.write, output, request.prepared.generation, checks)
        return written.model_copy(update={"notes": [*written.notes, _UNCONFIRMED_STEPS]})


async def _send(server: RemoteServer, journal: Journal, method: str, path: str, **content: Any) -> httpx2.Response:
    """Send a request. Raises Failure for a response that concerns the server or our access to it, and not the job."""
    try:
        response = await server.send(journal, method, path, **content)
    except ServerUnavailable as outage:
        if method == "POST":
            raise
        raise outage.as_interrupted() from outage  # an earlier POST has started the job
    unknown = method == "POST" and response.status_code == _UNKNOWN
    if unknown or response.is_redirect or response.status_code in _FORBIDDEN:
        raise server.refusal(response)
    return response
