"""CPU time is read of this process, and of those that descend from it."""

import os
import subprocess
import sys
import time

from benchmarks.processes import children, cpu_seconds
from benchmarks.reasoner.gpu import cpu_seconds_by_process
from cosmos_batch.engines.reasoner import preparation_program

WORK = "import time, sys; [0 for _ in range(10**7)]; print(time.process_time(), flush=True); sys.stdin.read()"


def test_the_cpu_time_of_a_process_is_what_it_says_itself() -> None:
    worker = subprocess.Popen([sys.executable, "-c", WORK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert worker.stdin is not None and worker.stdout is not None
    said = float(worker.stdout.readline())
    assert worker.pid in children(os.getpid())
    assert said > 0.1 and abs(cpu_seconds(worker.pid) - said) < 0.1
    by_process = cpu_seconds_by_process()
    assert by_process["server"] >= said - 0.1 and by_process["engine"] == 0
    assert abs(by_process["worker"] - time.process_time()) < 0.5
    worker.communicate()


def test_processes_that_prepare_requests_are_counted_apart() -> None:
    """The name that its command line has in a worker is an argument here."""
    command = [sys.executable, "-c", WORK, preparation_program.__name__]
    preparing = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert preparing.stdout is not None
    said = float(preparing.stdout.readline())
    assert abs(cpu_seconds_by_process()["preparation"] - said) < 0.1
    preparing.communicate()
