"""CPU time is read of this process, and of those that descend from it."""

import os
import subprocess
import sys
import time

from benchmarks.processes import children, cpu_seconds
from benchmarks.reasoner.gpu import cpu_seconds_by_process

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
