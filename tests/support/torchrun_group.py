"""A stand-in for the program of a torchrun group, which shows where each process is in a job.

A request is `{"folder": ..., "log": ..., "waits": [...]}`. Into the folder `log`, outside of the job's own, a process
writes an empty file when it `reads-RANK` the job's file `input` and before it `waits-RANK`: each process that `waits`
names by its rank, and `check`, waits there until the job's folder is gone. In the work, all processes add up their
ranks. The file's content decides what fails: `fail` makes the work of the first process raise an OSError.
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import torch

from cosmos_batch.engines.torchrun.driver import Body, end_with_torchrun, serve


class Adder:
    """A `GroupModel`."""

    def __init__(self) -> None:
        self.steps = 0
        self._rank = int(os.environ["RANK"])
        torch.distributed.init_process_group("gloo")

    def check(self, body: Body) -> None:
        if "check" in body["waits"]:
            self._wait(body)
            self.read(body)

    def read(self, body: Body) -> str:
        if self._rank in body["waits"]:
            self._wait(body)
        content = Path(body["folder"], "input").read_text()
        self._log(body, "reads")
        return content

    def work(self, _body: Body, inputs: Any) -> Body:
        total = torch.tensor(self._rank)
        torch.distributed.all_reduce(total)
        self.steps += 1
        if inputs == "fail" and self._rank == 0:
            raise OSError("no space left on the device")
        return {"sum": int(total), "process": os.getpid()}

    def _wait(self, body: Body) -> None:
        self._log(body, "waits")
        while Path(body["folder"]).parent.exists():
            time.sleep(0.01)

    def _log(self, body: Body, what: str) -> None:
        Path(body["log"], f"{what}-{self._rank}").touch()


def main() -> None:
    end_with_torchrun()
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", required=True)
    options, _ = parser.parse_known_args()
    serve(Adder(), options.socket, os.environ["RANK"] == "0")


if __name__ == "__main__":
    main()
