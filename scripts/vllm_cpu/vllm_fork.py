"""Lets the core of vLLM's CPU build begin with what its server has imported, as it does on a GPU.

On a CPU vLLM spawns it whatever it is told, which is a second import of all of it: half of what a start takes. This
module is imported at the start of every interpreter, by the `.pth` file beside it, and then costs nothing until vLLM's
module that starts processes is imported.
"""

import multiprocessing
import sys


class _Fork:
    """A finder that finds nothing: it is told of each import before it happens."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "vllm.v1.engine.utils":
            from vllm.utils import system_utils

            system_utils.get_mp_context = lambda: multiprocessing.get_context("fork")


sys.meta_path.insert(0, _Fork)
