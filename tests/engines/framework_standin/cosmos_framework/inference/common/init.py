"""A stand-in for the framework's start: it joins torchrun's process group on the CPU."""

import os


def is_rank0() -> bool:
    return os.environ.get("RANK", "0") == "0"


def init_script() -> None:
    import torch

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        torch.distributed.init_process_group("gloo")
