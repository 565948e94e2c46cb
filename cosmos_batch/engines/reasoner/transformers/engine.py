"""The reasoner engine on Hugging Face transformers, in the worker's own process, on a GPU or a CPU.

It has two threads: one decodes and tokenizes the next job while the other generates the current answer. Answers are not
batched, because each has its own seed and padding would change it. For throughput there is vLLM.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.engines.job_threads import JobCancellation
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.reasoner.transformers.checkpoint import Checkpoint, load_checkpoint
from cosmos_batch.engines.reasoner.transformers.generation import generate
from cosmos_batch.engines.reasoner.transformers.prompt import PreparedJob, prepare_inputs
from cosmos_batch.engines.torch_errors import free_memory, run_with_failures

_PARAMETERS = "fps or maxTokens"


class TransformersEngine:
    """An `Engine` for checkpoints of `AutoModelForImageTextToText`. Its libraries are imported by `load`."""

    concurrency = 2
    """One job generates while the next is prepared."""

    def __init__(self) -> None:
        self.name = f"transformers {version('transformers')}"
        self.startup_logs: list[str] = []
        self._checkpoint: Checkpoint | None = None
        self._cancellation = JobCancellation("answer")

    def load(self, model_dir: Path, context: int | None = None) -> None:
        """Import the libraries and load a checkpoint; blocks. Raises Failure (ModelUnavailable)."""
        journal = Journal()
        self.startup_logs = journal.lines
        journal.note(f"loading {model_dir.name} with {self.name}")
        self._checkpoint = load_checkpoint(model_dir, context, journal)
        self._prepare_thread = ThreadPoolExecutor(1, "prepare")
        self._generate_thread = ThreadPoolExecutor(1, "generate")
        journal.note(f"ready; context of {self._checkpoint.context:,} tokens")

    async def run(self, job: Job, workdir: Path) -> Answer:
        """Answer one job. Cancelling the task stops decoding within a frame, or generation within a token.

        Raises Failure: InvalidInput, EngineFailed, or Cancelled where the engine was closed meanwhile.
        """
        checkpoint = self._loaded()
        loop = asyncio.get_running_loop()
        with self._cancellation.scope() as check:
            prepared: PreparedJob = await loop.run_in_executor(
                self._prepare_thread,
                run_with_failures,
                _PARAMETERS,
                prepare_inputs,
                checkpoint,
                job,
                input_paths(job, workdir),
                check,
            )
            return await loop.run_in_executor(
                self._generate_thread, run_with_failures, _PARAMETERS, generate, checkpoint, prepared, check
            )

    def close(self) -> None:
        """Stop running jobs and free the model; `load` may be called again."""
        if self._checkpoint is None:
            return
        self._cancellation.cancel_all()
        self._prepare_thread.shutdown()
        self._generate_thread.shutdown()
        self._checkpoint = None
        free_memory()

    def _loaded(self) -> Checkpoint:
        if self._checkpoint is None:
            raise Failure("Internal", "The engine was asked before it had loaded a model.", "Load a model first.")
        return self._checkpoint
