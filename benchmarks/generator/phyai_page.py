"""Write the part of the generator's section about PhyAI on one GPU."""

from typing import Any

from benchmarks.generator.mode_results import HEAD, read, rows
from benchmarks.paragraphs import filled
from benchmarks.results import FOLDER, stored

RESULT = FOLDER / "generator-phyai-nano.json"
RESTARTS = FOLDER / "generator-phyai-nano-restarts.json"


def text() -> str:
    """Return a job of each kind, and what its server did when processes were killed."""
    results = read(RESULT)
    return f"""{_about(results)}

{HEAD}
{rows(results)}

{_of_restarts(stored(RESTARTS))}"""


def _about(results: dict[str, Any]) -> str:
    return filled(
        f"PhyAI, at the commit of its image ({results['engine']}), made a job of each kind that our table of engines "
        f"names for it: measured {results['day']} on {results['machine']}, torch {results['torch']}, while up to three "
        "of the host's other GPUs ran benchmarks. Weights, frames, steps and prompts were those of the tables above; "
        "jobs with a robot's actions have 17 frames. A video of 320x192 was made once before, in which FlashInfer "
        "compiled kernels for more than a minute. Each other job is the first of its kind or size.",
    )


def _of_restarts(found: dict[str, Any]) -> str:
    """Say what PhyAI's server did when a job was cancelled, and when its processes were killed."""
    torchrun, driver = found["kills"]
    return filled(
        f"On {found['day']} jobs of 320x192 were cancelled and processes killed, on {found['machine']}. The first job "
        f"took {found['job']:.0f} s, probably because FlashInfer compiled its kernels. One was cancelled after its "
        f"first step, and the next was done {found['jobAfterCancelled']:.1f} s after that. torchrun's process and its "
        f"child were each killed by SIGKILL while a job ran: the job failed after {torchrun['jobDied']:.1f} and "
        f"{driver['jobDied']:.1f} s, none of the processes was left, and the next job was done, by a server that had "
        f"been started again, {torchrun['nextAnswer']:.0f} and {driver['nextAnswer']:.0f} s after the kill.",
    )
