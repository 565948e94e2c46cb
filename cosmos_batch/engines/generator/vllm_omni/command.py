"""How `vllm-omni serve` is started for a checkpoint on what a worker finds."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.engines.generator.vllm_omni.plugin import VERDICTS_FOLDER
from cosmos_batch.engines.hub_cache import offline_variables
from cosmos_batch.engines.serving.served_model import ServerPlan
from cosmos_batch.engines.serving.server import program_here, socket_in
from cosmos_batch.engines.torch_errors import expandable_segments
from cosmos_batch.engines.vllm.dialect import cache_variables

LESS_MEMORY = "Choose an instance type with more GPU memory, or ask for a lower resolution or numFrames."
MODEL = "cosmos"  # the name by which it knows the checkpoint
_STEPS = re.compile(r"\| (\d+)/(\d+) \[")
_INIT_SECONDS = 1800  # of weights on slow disks; its own limits are a few minutes


def latest_progress(lines: Sequence[str]) -> tuple[int, int] | None:
    """How many of how many are done, by the last line of a progress bar that begins in these lines; None where none
    does. What comes before its beginning is of a job that was dropped, and is still made to its end.
    """
    bars = [(int(one[1]), int(one[2])) for line in lines if (one := _STEPS.search(line))]
    return bars[-1] if any(done == 0 for done, _ in bars) else None


def finished_bars(lines: Sequence[str]) -> int:
    """How many progress bars that begin in these lines are at their end: a job has one, transfer one for each chunk."""
    count, open_bar = 0, False
    for done, total in ((int(one[1]), int(one[2])) for line in lines if (one := _STEPS.search(line))):
        if done == 0:
            open_bar = True
        elif open_bar and done == total:
            count, open_bar = count + 1, False
    return count


@dataclass(frozen=True)
class OmniPlan(ServerPlan):
    """How one server is started: the `ServerPlan` of vLLM-Omni.

    Attributes
    ----------
    parallel
        How the GPUs share a job.
    gpus
        That the machine has; 0 for the CPU.
    guardrails
        Whether it loads any. A request may leave them then; it cannot have what was not loaded.
    guardrail_models
        Copies of their models; where there are none, it asks the Hub for them.
    verdicts
        Folder for what its guardrails say of each request; see `plugin`. None where it has no guardrails.
    """

    parallel: ParallelPlan
    gpus: int
    guardrails: bool
    guardrail_models: Mapping[str, Path] = field(default_factory=dict)
    verdicts: Path | None = None

    program = "vLLM-Omni"
    less_memory = LESS_MEMORY

    def __str__(self) -> str:
        return f"{self.parallel}, guardrails {'on' if self.guardrails else 'off'}"

    def command(self, checkpoint: Path, folder: Path) -> list[str]:
        """The argument list."""
        command = [program_here("vllm-omni"), "serve", str(checkpoint), "--omni", "--uds", str(socket_in(folder))]
        command += ["--served-model-name", MODEL, "--model-class-name", "Cosmos3OmniDiffusersPipeline"]
        command += ["--init-timeout", str(_INIT_SECONDS), "--stage-init-timeout", str(_INIT_SECONDS)]
        command += ["--disable-uvicorn-access-log"]  # jobs are polled
        if not self.guardrails:
            command += ["--no-guardrails"]
        if self.parallel.offload:
            command += ["--enable-layerwise-offload"]
        if not self.gpus:
            # Where a CPU has no bfloat16 arithmetic, torch emulates it many times slower than float32.
            command += ["--enforce-eager", "--dtype", "float32"]
        return [*command, *self._shared()]

    def environment(self, caches: Path | None, folder: Path) -> dict[str, str]:
        """Variables beside our own. Nothing is asked of the network but guardrails that it has no copies of."""
        variables = {
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_OMNI_SERVER_STORAGE__PATH": str(folder / "videos"),
            # Of its processes' sockets, whose paths the kernel limits to 107 bytes; see the reasoner's command.
            "VLLM_RPC_BASE_PATH": str(folder),
        }
        if self.guardrail_models or not self.guardrails:
            variables |= offline_variables(folder / "hub", self.guardrail_models)
        if self.verdicts is not None:
            variables[VERDICTS_FOLDER] = str(self.verdicts)
        if not self.gpus:
            variables["OMP_NUM_THREADS"] = "1"
        elif self.parallel.tp == 1:  # its all-reduce between GPUs cannot have it
            variables |= expandable_segments()
        return variables if caches is None else {**variables, **cache_variables(caches)}

    def _shared(self) -> list[str]:
        degrees = {
            "--tensor-parallel-size": self.parallel.tp,
            "--cfg-parallel-size": self.parallel.cfg,
            "--ulysses-degree": self.parallel.ulysses,
        }
        return [text for flag, degree in degrees.items() if degree > 1 for text in (flag, str(degree))]
