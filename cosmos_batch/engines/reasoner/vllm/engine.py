"""The reasoner engine on vLLM: it runs vLLM's server as a child process and sends it many requests at once.

A job's files are decoded once, in a few processes beside this one, or by the GPU's decoder in a few threads of this
one, and written to files that the server reads without decoding; see `plugin`. The server's own log lines name no
request, so a job's log holds the lines of this engine only.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cosmos_batch.catalogue.generation import REASONERS_IN_FP8, LossyMode
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer
from cosmos_batch.engines.checkpoints import context_length, refuse_incomplete
from cosmos_batch.engines.compile_cache import compiled_for
from cosmos_batch.engines.gpus import free_share, gpus_here
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.engines.job_threads import CancelCheck, JobCancellation, MediaThreads
from cosmos_batch.engines.lossy_modes import REASONERS, refuse_without_fp8, unavailable
from cosmos_batch.engines.reasoner.chat_request import ChatRequest, CheckpointInfo, prepare_request
from cosmos_batch.engines.reasoner.chat_response import complete_chat
from cosmos_batch.engines.reasoner.preparation_pool import PreparationPool
from cosmos_batch.engines.reasoner.vllm.command import MODEL, VllmPlan, memory_share, uneven
from cosmos_batch.engines.serving.dialect import Phases, dialect_of
from cosmos_batch.engines.serving.read_ahead import read_ahead
from cosmos_batch.engines.serving.served_model import ServedModel
from cosmos_batch.media import gpu_decoding

# The files of the weights that vLLM loads. In a Cosmos 3 checkpoint these are the transformer and the vision encoder;
# the generator's other parts are not read.
_WEIGHTS = ("*.safetensors", "[tv]*er/*.safetensors")
SEQUENCES_ON_GPU, SEQUENCES_ON_CPU = 256, 8
_PROCESSES_AT_ONCE = 8  # that start with the server; a machine with more cores starts more when there are jobs for them
_LEAST_MEMORY = 0.05  # share of a GPU's memory: 4 GB of the largest, less than the smallest model's weights


class VllmEngine:
    """An `Engine`, a `CompilingEngine` and a `LossyEngine` for every checkpoint that vLLM serves."""

    def __init__(self) -> None:
        self.name = f"vllm {version('vllm')}"
        self.caches: Path | None = None
        self.lossy: Sequence[LossyMode] = ()
        gpus = gpus_here()
        plan = VllmPlan(context=0, sequences=SEQUENCES_ON_GPU if gpus else SEQUENCES_ON_CPU, gpus=gpus)
        self._served = ServedModel(self.name, plan, dialect_of("vllm"))
        self._checkpoint: CheckpointInfo | None = None
        self._cancellation = JobCancellation("answer")

    @property
    def concurrency(self) -> int:
        """Return how many jobs run at once: as many as the server works on, and some whose files are decoded."""
        return self._served.plan.sequences + (os.cpu_count() or 1)

    @property
    def startup_logs(self) -> list[str]:
        """Return the lines that the server printed during its last start."""
        return self._served.startup_logs

    @property
    def startup_seconds(self) -> Phases:
        """Return the seconds of each phase of the last start."""
        return self._served.startup_seconds

    def compiled_for(self) -> dict[str, str]:
        """Return the facts that compiled code depends on beside the model."""
        precision = [mode for mode in self.lossy if mode in REASONERS_IN_FP8]
        lossy = {"lossy": ", ".join(precision)} if precision else {}
        return {**compiled_for(self._served.plan.gpus, "vllm"), **lossy}

    @property
    def _decodes_on_gpu(self) -> bool:
        return "gpuDecode" in self.lossy

    def load(self, model_dir: Path, context: int | None = None) -> None:
        """Start the server and block until it answers.

        Raises Failure: ModelUnavailable where the checkpoint is broken or needs more memory than there is, EngineFailed
        where the server does not start or the machine cannot run one of the lossy modes.
        """
        refuse_lossy_modes(self.lossy)
        refuse_incomplete(model_dir, "config.json")
        plan = self._served.plan
        if (reason := uneven(model_dir, plan.gpus)) is not None:
            raise Failure("EngineFailed", reason, "Use 1, 2, 4 or 8 GPUs; CUDA_VISIBLE_DEVICES names them.")
        memory = memory_share(free_share() if plan.gpus else 1.0)
        if memory < _LEAST_MEMORY:
            raise Failure(
                "EngineFailed",
                "Other programs hold the GPU's memory, and the rest of it is too small for any model.",
                "End them (nvidia-smi lists them), or choose another GPU with CUDA_VISIBLE_DEVICES.",
                retryable=True,
            )
        self._served.plan = replace(
            plan,
            context=context_length(model_dir, context),
            memory=memory,
            fp8="fp8" in self.lossy,
            fp8_cache="fp8Cache" in self.lossy,
        )
        self._served.caches = self.caches
        self._checkpoint = CheckpointInfo.from_folder(model_dir, self._served.plan.context)
        self._media_threads = MediaThreads(gpu_decoding.AT_ONCE if self._decodes_on_gpu else 1)
        processes = 0 if self._decodes_on_gpu else min(self._media_threads.count, _PROCESSES_AT_ONCE)
        self._preparation = PreparationPool(model_dir, self._served.plan.context, processes)
        try:
            with read_ahead(model_dir, _WEIGHTS):
                self._served.start(model_dir)
        except BaseException:
            self._preparation.close()
            raise

    async def run(self, job: Job, workdir: Path) -> Answer:
        """Answer one job. Cancelling the task stops decoding, or aborts the request to the server.

        Raises Failure, and EngineDied where the server ended meanwhile.
        """
        if self._checkpoint is None:
            raise Failure("Internal", "The engine was asked before it had loaded a model.", "Load a model first.")
        paths = input_paths(job, workdir)
        with self._cancellation.scope() as check:
            request = await self._media_threads.run(job, self._prepare, self._checkpoint, job, paths, check)
        space_json(request.body)
        dialect = self._served.dialect
        return await self._served.request(lambda connection: complete_chat(connection, MODEL, request, dialect))

    def _prepare(self, checkpoint: CheckpointInfo, job: Job, paths: list[Path], check: CancelCheck) -> ChatRequest:
        """Return the request for a job. Its files are decoded in another process, or, where the GPU decodes, in this
        one: each process would take hundreds of megabytes of the GPU's memory.
        """
        if self._decodes_on_gpu:
            return prepare_request(checkpoint, job, paths, check, on_gpu=True)
        return self._preparation.prepare(job, paths, check)

    def close(self) -> None:
        """Stop the server; `load` may be called again."""
        self._cancellation.cancel_all()
        self._served.close()
        if self._checkpoint is not None:
            self._checkpoint = None
            self._media_threads.close()
            self._preparation.close()


def refuse_lossy_modes(modes: Sequence[LossyMode]) -> None:
    """Raise Failure (EngineFailed) if this machine cannot run one of the modes."""
    for mode in modes:
        if mode in REASONERS_IN_FP8:
            refuse_without_fp8(REASONERS, mode)
    if "gpuDecode" in modes and gpu_decoding.device_of_this_process() is None:
        why = "FFmpeg could not start a GPU's video decoder (NVDEC)"
        remedy = "Take a machine with an NVIDIA GPU whose driver has libnvcuvid, as our images ask for it"
        raise unavailable(["gpuDecode"], why, remedy, REASONERS)


def space_json(body: dict[str, Any]) -> None:
    """Add to a request's JSON Schema, if it has one, that the answer has a space after each comma and colon.

    Models learn to write JSON with these spaces. By default vLLM's grammar forbids them, and a model that must write
    `[1,2]` where it would write `[1, 2]` makes mistakes. Other white space stays forbidden (`serve_command`).
    """
    if "response_format" in body:
        schema = body["response_format"]["json_schema"]
        schema["schema"] = {**schema["schema"], "x-guidance": {"item_separator": ", ", "key_separator": ": "}}
