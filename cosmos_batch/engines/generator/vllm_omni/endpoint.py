"""Generations by a vLLM-Omni server that runs already, such as those of NVIDIA's documentation.

What it looks at is fitted here and travels in the request; it reads none of our files. Whether it loaded guardrails it
does not say: the pipeline's configuration does.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.guardrails import Checks
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Made
from cosmos_batch.engines.errors import ServerUnavailable
from cosmos_batch.engines.generator.vllm_omni.job import OmniJob
from cosmos_batch.engines.job_files import generation_files
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.serving.dialect import dialect_of
from cosmos_batch.engines.serving.endpoint_engine import EndpointEngineBase
from cosmos_batch.engines.serving.remote_server import RemoteServer
from cosmos_batch.planning.generation.abilities import DISTILLED_REASON, DISTILLED_REMEDY, is_distilled_name

NOT_VERIFIED = Checks(prompt="notVerified", output="notVerified")
"""Of a request with guardrails: vLLM-Omni does not report whether it checked, and passes what it could not judge."""

_AS_ASKED = (
    "Steps and guidance scale are those that were asked of the server, which does not report those that it ran: with a "
    "distilled checkpoint they are its own."
)
_UNKNOWN = 404
_FORBIDDEN = (401, 403)


class OmniEndpointEngine(EndpointEngineBase):
    """`Engine` and `Guarding` for a model that is resident elsewhere. `api_key` gives the key, or None."""

    guardrails = False
    """Whether the server was started with any: it does not tell, the pipeline's configuration does."""

    def __init__(self, endpoint: Endpoint, api_key: Callable[[], str | None]) -> None:
        super().__init__("vllm-omni", "generation", endpoint, api_key, dialect_of("vllm-omni"))

    def load(self, model_dir: Path, context: int | None = None) -> None:  # noqa: ARG002 - nothing is loaded here
        """Ask the server for its models; blocks. Nothing of the folder is read.

        Raises Failure: ModelUnavailable where it has no such model, a distilled one, or refuses us, EngineFailed where
        it is not there.
        """
        journal = Journal()
        self.startup_logs = journal.lines
        self._connect()
        if is_distilled_name(self._model):
            raise Failure("ModelUnavailable", f"{self._model} {DISTILLED_REASON}.", DISTILLED_REMEDY)
        journal.note(f"{self._endpoint.url} serves {self._model}")

    async def run(self, job: Job, workdir: Path) -> Made:
        """Make what a job asks for, as files in `workdir`. Cancelling has the server drop it.

        Raises Failure: InvalidInput where the job is at fault, ModelUnavailable and EngineFailed where the server is.
        """
        assert job.generation is not None, "plan decides one for every generator"
        server = self._connected()
        with self._cancellation.scope() as check:
            work = OmniJob(workdir, count=None, shares_files=False, check=check)
            files = generation_files(job, workdir)
            order = await self._preparing.run(job, work.prepare, job.generation, files)
            made = await work.make(order, partial(_send, server, work.journal))
            checks = NOT_VERIFIED if job.generation.guardrails else Checks()
            done = await asyncio.to_thread(work.write, made, order, checks)
        return done.model_copy(update={"notes": [*done.notes, _AS_ASKED]})


async def _send(server: RemoteServer, journal: Journal, method: str, path: str, **content: Any) -> httpx2.Response:
    """Raises Failure where the response says something of the server, or of us, and nothing of a job."""
    try:
        response = await server.send(journal, method, path, **content)
    except ServerUnavailable as away:
        if method == "POST":
            raise
        raise away.as_interrupted() from away  # it had begun on what we ask about
    unknown = method == "POST" and response.status_code == _UNKNOWN
    if unknown or response.is_redirect or response.status_code in _FORBIDDEN:
        raise server.refusal(response)
    return response
