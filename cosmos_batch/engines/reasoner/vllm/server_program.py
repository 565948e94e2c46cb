"""The program of the server's process: vLLM's own command line, whose imports it does without garbage collection.

    python -m cosmos_batch.engines.reasoner.vllm.server_program serve MODEL ...

While a program imports, it makes hundreds of thousands of objects, and Python's collector looks at all of them again
and again. They stay for as long as the program runs, so it finds next to nothing. After the imports these objects are
left out of all collections, also in the engine's process, which is forked from this one.
"""

import gc
import sys


def main() -> None:
    """Import what `vllm serve` needs, and run vLLM's command line."""
    gc.disable()
    import vllm.entrypoints.cli.serve  # noqa: F401 - imports nearly everything that its command line does
    from vllm.entrypoints.cli.main import main as run_vllm

    gc.freeze()
    gc.enable()
    sys.exit(run_vllm())


if __name__ == "__main__":
    main()
