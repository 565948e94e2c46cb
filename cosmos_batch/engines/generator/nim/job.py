"""One generation with a NIM: its request, and what its document says about how the server treats it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.engines.data_urls import SENT_AS_H264
from cosmos_batch.engines.generator.inputs import PreparedGeneration
from cosmos_batch.engines.generator.nim.client import infer
from cosmos_batch.engines.generator.nim.requests import infer_body
from cosmos_batch.engines.generator.served_job import ServedJob, ServerOutput
from cosmos_batch.engines.job_files import GenerationFiles
from cosmos_batch.engines.serving.remote_server import RemoteServer

PROMPTS_AS_WRITTEN = (
    "The prompts were sent as they are written: the server may add texts of its own, and rewrites the prompt if it was "
    "started with prompt upsampling. It does not report either."
)
UNKNOWN_PRECISION = (
    "The server chooses its precision, FP8 where it can, and may skip parts of steps (SeaCache). It does not report "
    "either."
)
UNCONFIRMED_SAMPLING = (
    "Steps, guidance scale and flow shift are those of the request. The server does not report the ones that it used."
)
FIXED_SAMPLING = "The server's model sets steps and noise levels itself, and the server does not report them."
NO_GUIDANCE_INTERVAL = (
    "The server takes no guidance interval: unlike with other engines, guidance may have been applied in all steps."
)
NO_VIEW_POINT = "viewPoint was not sent: the server has no field for it."
NO_SEQUENCE_LENGTH = "maxSequenceLength was not sent: the server was started with its own."
IMAGE_WAS_JPEG = "The server sends images as JPEG, which loses detail; the image was decoded and encoded again."
VIDEO_WAS_VP9 = "The server sends videos as VP9, which loses detail; the video was decoded and encoded again."
GUARDRAILS_STAYED_ON = (
    "guardrails: the request switched them off, which has no effect: no request can switch off those of the server."
)


class NimJob(ServedJob):
    """A generation with a NIM. Call `prepare`, `generate` and `write` in this order.

    Parameters
    ----------
    guarded
        Whether the server was started with guardrails.
    """

    def __init__(self, folder: Path, guarded: bool, check: Callable[[], None]) -> None:
        super().__init__("nim", folder, check)
        self._guarded = guarded

    def prepare(self, generation: Generation, files: GenerationFiles) -> tuple[PreparedGeneration, dict[str, Any]]:
        """Decode and fit the inputs, and return them with the request's body; blocks. Raises Failure."""
        with self._journal.timed("prepare"):
            prepared = self._prepared(generation, files)
            self._notes += _notes(prepared.generation, self._guarded)
            return prepared, infer_body(prepared, self._folder, self._check)

    async def generate(self, server: RemoteServer, body: dict[str, Any], *, is_video: bool) -> ServerOutput:
        """Have the server generate. Cancelling closes the connection. Raises Failure."""
        with self._journal.timed("generate"):
            return await infer(server, self._journal, body, is_video=is_video)


def _notes(generation: Generation, guarded: bool) -> list[str]:
    """Return how the result may differ from what other engines make of the request."""
    applicable = {
        FIXED_SAMPLING: generation.distilled,
        UNCONFIRMED_SAMPLING: not generation.distilled,
        NO_GUIDANCE_INTERVAL: generation.guided and generation.guidance_interval is not None,
        PROMPTS_AS_WRITTEN: True,
        UNKNOWN_PRECISION: True,
        NO_VIEW_POINT: generation.action is not None,
        NO_SEQUENCE_LENGTH: generation.max_sequence_length is not None,
        SENT_AS_H264: generation.mode in ("v2v", "transfer", "inverse_dynamics"),
        VIDEO_WAS_VP9: generation.is_video,
        IMAGE_WAS_JPEG: not generation.is_video,
        GUARDRAILS_STAYED_ON: guarded and not generation.guardrails,
    }
    return [note for note, applies in applicable.items() if applies]
