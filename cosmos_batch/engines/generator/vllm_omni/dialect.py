"""vLLM-Omni's wording, where it differs from vLLM's."""

import httpx2

from cosmos_batch.engines.serving.server import Server
from cosmos_batch.engines.vllm.dialect import VllmDialect


class VllmOmniDialect(VllmDialect):
    """The wording of vLLM-Omni 0.30."""

    gives_up_with = "Orchestrator initialization failed"

    def progress(self, server: Server, client: httpx2.Client) -> str:  # noqa: ARG002 - of the protocol
        """Return how many lines it has printed: it prints one for each step, and some while it decodes after them.

        Its metrics do not change while it works, and it prints nothing without a request.
        """
        return str(server.lines_read)
