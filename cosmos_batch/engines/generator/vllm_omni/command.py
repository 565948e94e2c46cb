"""Build the command that starts `vllm-omni serve` for a checkpoint on this machine, and read its progress bars."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.engines.generator.vllm_omni.plugin import VERDICTS_FOLDER
from cosmos_batch.engines.hub_cache import offline_variables
from cosmos_batch.engines.serving.server import program_here, socket_in
from cosmos_batch.engines.serving.server_plan import ServerPlan
from cosmos_batch.engines.torch_errors import expandable_segments
from cosmos_batch.engines.vllm.dialect import cache_variables

LESS_MEMORY = "Choose an instance type with more GPU memory, or ask for a lower resolution or numFrames."
MODEL = "cosmos"  # the model's name in requests
_STEPS = re.compile(r"\| (\d+)/(\d+) \[")
_INIT_SECONDS = 1800  # weights on slow disks take longer than the default limits of a few minutes


def latest_progress(lines: Sequence[str]) -> tuple[int, int] | None:
    """Return steps done and total of the last progress bar that starts in these lines; None if none starts there.

    A bar that started before these lines belongs to a cancelled job, which the server still generates to its end.
    """
    bars = [(int(match[1]), int(match[2])) for line in lines if (match := _STEPS.search(line))]
    return bars[-1] if any(done == 0 for done, _ in bars) else None


def finished_bars(lines: Sequence[str]) -> int:
    """Return how many progress bars start and end in these lines. A job has one bar, a transfer one for each chunk."""
    count, open_bar = 0, False
    for done, total in ((int(match[1]), int(match[2])) for line in lines if (match := _STEPS.search(line))):
        if done == 0:
            open_bar = True
        elif open_bar and done == total:
            count, open_bar = count + 1, False
    return count


@dataclass(frozen=True)
class OmniPlan(ServerPlan):
    """The `ServerPlan` of vLLM-Omni: how one server is started.

    Attributes
    ----------
    parallel
        How the GPUs share one job.
    gpus
        How many GPUs the machine has; 0 means that it runs on the CPU.
    guardrails
        Whether the server loads guardrails. A request may switch them off, and cannot switch them on.
    guardrail_models
        Local copies of the guardrails' models by their names on the Hub; if empty, the server downloads them.
    verdicts
        Folder for the verdicts on each request; see `plugin`. None without guardrails.
    sea_cache
        Whether the server skips layers in steps that change little, with the settings that it has for Cosmos 3. Which
        steps it skips depends on the video.
    """

    parallel: ParallelPlan
    gpus: int
    guardrails: bool
    guardrail_models: Mapping[str, Path] = field(default_factory=dict)
    verdicts: Path | None = None
    sea_cache: bool = False

    program = "vLLM-Omni"
    less_memory = LESS_MEMORY

    def __str__(self) -> str:
        cache = ", SeaCache" if self.sea_cache else ""
        return f"{self.parallel}, guardrails {'on' if self.guardrails else 'off'}{cache}"

    def command(self, checkpoint: Path, folder: Path) -> list[str]:
        """Return the argument list."""
        command = [program_here("vllm-omni"), "serve", str(checkpoint), "--omni", "--uds", str(socket_in(folder))]
        command += ["--served-model-name", MODEL, "--model-class-name", "Cosmos3OmniDiffusersPipeline"]
        command += ["--init-timeout", str(_INIT_SECONDS), "--stage-init-timeout", str(_INIT_SECONDS)]
        command += ["--disable-uvicorn-access-log"]  # polling would fill the log
        if not self.guardrails:
            command += ["--no-guardrails"]
        if self.parallel.offload:
            command += ["--enable-layerwise-offload"]
        if self.sea_cache:
            command += ["--cache-backend", "sea_cache"]
        if not self.gpus:
            # A CPU without bfloat16 arithmetic emulates it, many times slower than float32.
            command += ["--enforce-eager", "--dtype", "float32"]
        return [*command, *self._shared()]

    def environment(self, caches: Path | None, folder: Path) -> dict[str, str]:
        """Return the variables to add to the worker's own. Without copies of the guardrails' models, the Hub stays
        allowed."""
        variables = {
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_OMNI_SERVER_STORAGE__PATH": str(folder / "videos"),
            # Its processes' sockets lie here: the kernel limits their paths to 107 bytes.
            "VLLM_RPC_BASE_PATH": str(folder),
        }
        if self.guardrail_models or not self.guardrails:
            variables |= offline_variables(folder / "hub", self.guardrail_models)
        if self.verdicts is not None:
            variables[VERDICTS_FOLDER] = str(self.verdicts)
        if not self.gpus:
            variables["OMP_NUM_THREADS"] = "1"
        elif self.parallel.tp == 1:  # vLLM's all-reduce between GPUs does not work with it
            variables |= expandable_segments()
        return variables if caches is None else {**variables, **cache_variables(caches)}

    def _shared(self) -> list[str]:
        degrees = {
            "--tensor-parallel-size": self.parallel.tp,
            "--cfg-parallel-size": self.parallel.cfg,
            "--ulysses-degree": self.parallel.ulysses,
        }
        return [text for flag, degree in degrees.items() if degree > 1 for text in (flag, str(degree))]
