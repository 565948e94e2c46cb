"""Lets vLLM's CPU build prefill a prompt with a seed in parts, as on a GPU, instead of ending its core.

Where many requests come at once, vLLM prefills some of their prompts in several steps. It draws a token at each step,
drops all but the last, and winds the request's random numbers back by a method that only CUDA's generators have:
"CPU Generator does not use offset". Here the numbers begin anew, which is the same unless a request was preempted
between two of its tokens. vLLM: `_bookkeeping_sync` of `vllm/v1/worker/gpu_model_runner.py`.

This module is imported at the start of every interpreter, by the `.pth` file beside it, and then costs nothing until
vLLM's module that runs models on a CPU is imported.
"""

import sys
from typing import Any


class _Seeds:
    """A finder that finds nothing: it is told of each import before it happens."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "vllm.v1.worker.cpu_model_runner":
            from vllm.v1.worker.gpu_model_runner import GPUModelRunner

            GPUModelRunner._bookkeeping_sync = _with_seeds_begun_anew(GPUModelRunner._bookkeeping_sync)


def _with_seeds_begun_anew(bookkeeping: Any) -> Any:
    def begin_anew(runner: Any, *arguments: Any, **options: Any) -> Any:
        batch = runner.input_batch
        dropped = runner.discard_request_mask.np[: batch.num_reqs].nonzero()[0]
        begun_anew = {int(row): batch.generators.pop(int(row)) for row in dropped if int(row) in batch.generators}
        for generator in begun_anew.values():
            generator.manual_seed(generator.initial_seed())
        try:
            return bookkeeping(runner, *arguments, **options)
        finally:
            batch.generators.update(begun_anew)

    return begin_anew


sys.meta_path.insert(0, _Seeds)
