"""vLLM on a machine without a GPU, whose CPU is counted as the worker's one GPU."""

from pathlib import Path
from unittest import mock

from cosmos_batch.engines.reasoner.vllm.engine import VllmEngine
from cosmos_batch.worker import costs


class CpuEngine(VllmEngine):
    """Counts the engine's seconds as GPU-seconds, from which the plan of a later run takes its pace."""

    def load(self, model_dir: Path, context: int | None = None) -> None:
        mock.patch.object(costs, "gpus_here", lambda: 1).start()
        super().load(model_dir, context)
