"""Requests are prepared in other processes as in this one, and a process that ends takes only its own job with it."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.engines.job_threads import LESS_URGENT, MediaThreads
from cosmos_batch.engines.reasoner import preparation_processes
from cosmos_batch.engines.reasoner.chat_request import ChatRequest, CheckpointInfo, prepare_request
from cosmos_batch.engines.reasoner.preparation_processes import PreparationProcesses
from cosmos_batch.engines.reasoner.preparation_program import PreparationTask
from tests.engines.conftest import make_job, place
from tests.support import media_files

CONTEXT = 4096
ENOUGH = 60  # seconds, on a busy machine


@pytest.fixture
def processes(checkpoint_dir: Path) -> Iterator[PreparationProcesses]:
    processes = PreparationProcesses(checkpoint_dir, CONTEXT, 1)
    yield processes
    processes.close()


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return media_files.video(tmp_path / "clip.mp4", frames=40)


def never() -> None:
    """Check for a job that is not cancelled."""


def pid_of(processes: PreparationProcesses) -> int:
    [process] = processes._idle
    return process._process.pid


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def asked(source: Path, workdir: Path, **parameters: object) -> tuple[Job, list[Path]]:
    job = make_job(source.name, **parameters)
    workdir.mkdir()
    place(source, job, workdir)
    return job, input_paths(job, workdir)


def fields(request: ChatRequest) -> dict[str, object]:
    """Return what a request says, without the times that its preparation took."""
    notes = [line.partition(" s  ")[2] for line in request.journal.lines]
    said = {name: value for name, value in vars(request).items() if name not in ("journal", "timings")}
    return {**said, "journal": notes, "timings": list(request.timings)}


def test_a_request_is_the_same_as_in_this_process(
    processes: PreparationProcesses, checkpoint_dir: Path, clip: Path, tmp_path: Path
) -> None:
    schema = {"type": "object", "properties": {"ü": {"type": "number", "minimum": 0.5}}}
    job, paths = asked(clip, tmp_path / "here", prompt="Wo ist “es”?\nAnd then?", fps=2, jsonSchema=schema)
    checkpoint = CheckpointInfo.from_folder(checkpoint_dir, CONTEXT)
    here = prepare_request(checkpoint, job, paths, never)
    seen = paths[0].with_suffix(".seen.clip")
    frames = seen.read_bytes()
    seen.unlink()
    there = processes.prepare(job, paths, never)
    assert fields(there) == fields(here)
    assert there.frame_times and there.timings["decode"] > 0 and seen.read_bytes() == frames


def test_one_process_serves_one_job_after_the_other(
    processes: PreparationProcesses, clip: Path, tmp_path: Path
) -> None:
    pid = pid_of(processes)
    for number in range(3):
        assert processes.prepare(*asked(clip, tmp_path / str(number)), never).frame_times
    assert pid_of(processes) == pid


def test_the_error_of_a_file_is_that_of_this_process(
    processes: PreparationProcesses, checkpoint_dir: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"\0\0\0\x18ftypmp42")
    job, paths = asked(broken, tmp_path / "here")
    checkpoint, pid = CheckpointInfo.from_folder(checkpoint_dir, CONTEXT), pid_of(processes)
    with pytest.raises(Failure) as here:
        prepare_request(checkpoint, job, paths, never)
    with pytest.raises(Failure) as there:
        processes.prepare(job, paths, never)
    assert there.value.error == here.value.error and there.value.error.code == "InvalidInput"
    assert pid_of(processes) == pid, "a file that is at fault does not end the process"


@pytest.mark.parametrize(
    ("ending", "code", "retryable", "says"),
    [
        ("os.abort()", "InvalidInput", False, "The decoder crashed (SIGABRT) at clip.mp4"),
        ("os.kill(os.getpid(), 11)", "InvalidInput", False, "The decoder crashed (SIGSEGV) at clip.mp4"),
        ("os.kill(os.getpid(), 9)", "EngineFailed", True, "decodes clip.mp4 was ended by SIGKILL"),
        ("sys.exit(3)", "EngineFailed", False, "decodes clip.mp4 ended with status 3"),
        ("print('{', end='', flush=True)", "EngineFailed", False, "decodes clip.mp4 ended with status 0"),
    ],
)
@pytest.mark.parametrize("reads", [True, False])
def test_a_process_that_ends_fails_the_job_that_it_had_in_hand(
    checkpoint_dir: Path,
    clip: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
    code: str,
    retryable: bool,
    says: str,
    reads: bool,
) -> None:
    program = f"import os, sys; print(flush=True); {'sys.stdin.readline(); ' if reads else ''}{ending}"
    with monkeypatch.context() as patch:
        patch.setattr(preparation_processes, "_PROGRAM", [sys.executable, "-c", program])
        crashing = PreparationProcesses(checkpoint_dir, CONTEXT, 1)
    with pytest.raises(Failure) as raised:
        crashing._idle[0].ask(*asked(clip, tmp_path / "job"), never)
    assert (raised.value.error.code, raised.value.error.retryable) == (code, retryable)
    assert says in raised.value.error.message and raised.value.error.remedy
    crashing.close()


def test_after_a_crash_another_process_takes_the_next_job(
    processes: PreparationProcesses, clip: Path, tmp_path: Path
) -> None:
    pid = pid_of(processes)
    os.kill(pid, signal.SIGSTOP)

    def crash() -> None:
        os.kill(pid, signal.SIGSEGV)
        os.kill(pid, signal.SIGCONT)

    with pytest.raises(Failure, match="SIGSEGV"):
        processes.prepare(*asked(clip, tmp_path / "crash"), crash)
    assert is_gone(pid)
    assert processes.prepare(*asked(clip, tmp_path / "next"), never).frame_times


def test_a_process_that_ended_between_two_jobs_fails_none(
    processes: PreparationProcesses, clip: Path, tmp_path: Path
) -> None:
    processes.prepare(*asked(clip, tmp_path / "one"), never)
    pid = pid_of(processes)
    os.kill(pid, signal.SIGKILL)
    processes._idle[0]._process.wait()
    assert processes.prepare(*asked(clip, tmp_path / "two"), never).frame_times
    assert pid_of(processes) != pid


def test_a_cancelled_job_ends_its_process(processes: PreparationProcesses, clip: Path, tmp_path: Path) -> None:
    pid = pid_of(processes)
    os.kill(pid, signal.SIGSTOP)

    def check() -> None:
        raise Failure("Cancelled", "It was cancelled.", "Ask again.")

    with pytest.raises(Failure, match="It was cancelled"):
        processes.prepare(*asked(clip, tmp_path / "cancelled"), check)
    assert is_gone(pid)
    assert processes.prepare(*asked(clip, tmp_path / "next"), never).frame_times


def test_a_job_does_not_wait_for_that_of_another_thread(
    processes: PreparationProcesses, clip: Path, tmp_path: Path
) -> None:
    pid, waits = pid_of(processes), threading.Event()
    os.kill(pid, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(processes.prepare, *asked(clip, tmp_path / "slow"), waits.set)
        assert waits.wait(ENOUGH)
        assert processes.prepare(*asked(clip, tmp_path / "quick"), never).frame_times
        os.kill(pid, signal.SIGCONT)
        assert slow.result(ENOUGH).frame_times
    assert pid in [process._process.pid for process in processes._idle] and len(processes._idle) == 2


def test_closing_ends_all_processes(checkpoint_dir: Path) -> None:
    processes = PreparationProcesses(checkpoint_dir, CONTEXT, 2)
    pids = [process._process.pid for process in processes._idle]
    processes.close()
    assert len(pids) == 2 and all(map(is_gone, pids))


def test_a_process_ends_with_its_worker_also_in_the_middle_of_a_file(checkpoint_dir: Path, tmp_path: Path) -> None:
    """A worker that is killed closes nothing, but the kernel closes the pipe."""
    long = media_files.video(tmp_path / "long.mp4", frames=5000, width=640, height=480)
    job = make_job(long.name, fps=12)
    command = [*preparation_processes._PROGRAM, str(checkpoint_dir), str(CONTEXT)]
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert program.stdin is not None and program.stdout is not None and program.stderr is not None
    assert program.stdout.readline() == b"\n"
    task = PreparationTask(job=job, paths=[str(long)])
    program.stdin.write(task.model_dump_json().encode() + b"\n")
    program.stdin.close()
    assert program.wait(ENOUGH) == 1
    assert b"has ended" in program.stderr.read() and program.stdout.read() == b""


def test_a_process_without_a_job_ends_with_its_worker(checkpoint_dir: Path) -> None:
    command = [*preparation_processes._PROGRAM, str(checkpoint_dir), str(CONTEXT)]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=ENOUGH, check=True)
    assert ended.stdout == b"\n"


def test_an_error_of_ours_is_in_the_log_and_ends_the_job(
    checkpoint_dir: Path, clip: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = shutil.copytree(checkpoint_dir, tmp_path / "model")
    (model / "tokenizer.json").write_text("no JSON")
    processes = PreparationProcesses(model, CONTEXT, 1)
    with pytest.raises(Failure, match="ended with status 1"):
        processes._idle[0].ask(*asked(clip, tmp_path / "job"), never)
    processes.close()
    assert "Traceback" in capfd.readouterr().err


def test_what_decodes_is_less_urgent_than_the_engine(
    processes: PreparationProcesses, clip: Path, tmp_path: Path
) -> None:
    processes.prepare(*asked(clip, tmp_path / "job"), never)
    pid = pid_of(processes)
    assert os.getpriority(os.PRIO_PROCESS, pid) == LESS_URGENT
    assert os.getpgid(pid) != os.getpgid(0), "Ctrl-C in a terminal does not reach it"
    threads = MediaThreads()

    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    assert [pool.submit(niceness).result() for pool in (threads._small, threads._large)] == [LESS_URGENT] * 2
    assert os.getpriority(os.PRIO_PROCESS, 0) == 0
    threads.close()


def test_a_requests_fields_all_reach_this_process(checkpoint_dir: Path, clip: Path, tmp_path: Path) -> None:
    """A field that is added to a request must be added to what the process writes."""
    job, paths = asked(clip, tmp_path / "job")
    request = prepare_request(CheckpointInfo.from_folder(checkpoint_dir, CONTEXT), job, paths, never)
    names = {*vars(request), "lines"} - {"journal"}
    assert names == set(preparation_processes.WrittenRequest.model_fields)
