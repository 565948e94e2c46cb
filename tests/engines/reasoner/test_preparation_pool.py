"""Requests are prepared in other processes as in this one, and a process that ends takes only its own job with it."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.engines.job_threads import LESS_URGENT, MediaThreads
from cosmos_batch.engines.reasoner import preparation_pool
from cosmos_batch.engines.reasoner.chat_request import ChatRequest, CheckpointInfo, prepare_request
from cosmos_batch.engines.reasoner.preparation_pool import PreparationError, PreparationPool, PreparationProcess
from cosmos_batch.engines.reasoner.preparation_program import PreparationTask, WrittenRequest
from cosmos_batch.worker.inputs import is_full_disk
from tests.engines.conftest import make_job, place
from tests.support import media_files

CONTEXT = 4096
ENOUGH = 60  # seconds, on a busy machine


@pytest.fixture
def pool(checkpoint_dir: Path) -> Iterator[PreparationPool]:
    pool = PreparationPool(checkpoint_dir, CONTEXT, 1)
    yield pool
    pool.close()


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return media_files.video(tmp_path / "clip.mp4", frames=40)


def never() -> None:
    """Check for a job that is not cancelled."""


def cancelled_once_begun(pool: PreparationPool) -> Callable[[], None]:
    """Return the check of a job that is cancelled when the pool's only process has it in hand."""

    def check() -> None:
        if pool._idle == []:
            raise Failure("Cancelled", "It was cancelled.", "Ask again.")

    return check


def pid_of(pool: PreparationPool) -> int:
    [process] = pool._idle
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
    pool: PreparationPool, checkpoint_dir: Path, clip: Path, tmp_path: Path
) -> None:
    schema = {"type": "object", "properties": {"ü": {"type": "number", "minimum": 0.5}}}
    job, paths = asked(clip, tmp_path / "here", prompt="Wo ist “es”?\nAnd then?", fps=2, jsonSchema=schema)
    checkpoint = CheckpointInfo.from_folder(checkpoint_dir, CONTEXT)
    here = prepare_request(checkpoint, job, paths, never)
    seen = paths[0].with_suffix(".seen.clip")
    frames = seen.read_bytes()
    seen.unlink()
    there = pool.prepare(job, paths, never)
    assert fields(there) == fields(here)
    assert there.frame_times and there.timings["decode"] > 0 and seen.read_bytes() == frames


def test_one_process_serves_one_job_after_the_other(pool: PreparationPool, clip: Path, tmp_path: Path) -> None:
    pid = pid_of(pool)
    for number in range(3):
        assert pool.prepare(*asked(clip, tmp_path / str(number)), never).frame_times
    assert pid_of(pool) == pid


def test_the_error_of_a_file_is_that_of_this_process(
    pool: PreparationPool, checkpoint_dir: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"\0\0\0\x18ftypmp42")
    job, paths = asked(broken, tmp_path / "here")
    checkpoint, pid = CheckpointInfo.from_folder(checkpoint_dir, CONTEXT), pid_of(pool)
    with pytest.raises(Failure) as here:
        prepare_request(checkpoint, job, paths, never)
    with pytest.raises(Failure) as there:
        pool.prepare(job, paths, never)
    assert there.value.error == here.value.error and there.value.error.code == "InvalidInput"
    assert pid_of(pool) == pid, "a file that is at fault does not end the process"


READY = "import os, sys; print(flush=True); "
READS = READY + "sys.stdin.readline(); "
CRASHED = ("InvalidInput", False, "while it decoded clip.mp4")
STOPPED = ("EngineFailed", True, "decodes clip.mp4 stopped unexpectedly")
KILLED = ("EngineFailed", True, "decoded clip.mp4 was killed, probably because memory ran out")


@pytest.mark.parametrize(
    ("program", "code", "retryable", "says"),
    [
        (READS + "os.abort()", *CRASHED),
        (READS + "os.kill(os.getpid(), 11)", *CRASHED),
        (READS + "os.kill(os.getpid(), 9)", *KILLED),
        ("import os; os.kill(os.getpid(), 9)", *KILLED),
        (READS + "os.kill(os.getpid(), 15)", *STOPPED),
        (READS + "import signal; signal.signal(2, signal.SIG_DFL); os.kill(os.getpid(), 2)", *STOPPED),
        (READS + "os.kill(os.getpid(), 35)", *STOPPED),
        ("import os; os.abort()", *STOPPED),
        ("raise SystemExit(3)", *STOPPED),
        (READS + "sys.exit(3)", *STOPPED),
        (READY + "sys.exit(3)", *STOPPED),
        (READS + "print('{', end='', flush=True)", *STOPPED),
    ],
)
def test_a_process_that_ends_fails_the_job_that_it_had_in_hand(
    checkpoint_dir: Path,
    clip: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    code: str,
    retryable: bool,
    says: str,
) -> None:
    monkeypatch.setattr(preparation_pool, "_PROGRAM", [sys.executable, "-c", program])
    pool = PreparationPool(checkpoint_dir, CONTEXT, 0)
    with pytest.raises(Failure) as raised:
        pool.prepare(*asked(clip, tmp_path / "job", prompt="x" * 300_000), never)
    assert (raised.value.error.code, raised.value.error.retryable) == (code, retryable)
    assert says in raised.value.error.message and raised.value.error.remedy
    assert pool._idle == []


def test_after_a_crash_another_process_takes_the_next_job(pool: PreparationPool, clip: Path, tmp_path: Path) -> None:
    pool.prepare(*asked(clip, tmp_path / "before"), never)
    pid = pid_of(pool)
    os.kill(pid, signal.SIGSTOP)

    def crash() -> None:
        if pool._idle == []:
            os.kill(pid, signal.SIGSEGV)
            os.kill(pid, signal.SIGCONT)

    with pytest.raises(Failure, match="SIGSEGV"):
        pool.prepare(*asked(clip, tmp_path / "crash"), crash)
    assert is_gone(pid)
    assert pool.prepare(*asked(clip, tmp_path / "next"), never).frame_times


def test_a_process_that_ended_between_two_jobs_fails_none(pool: PreparationPool, clip: Path, tmp_path: Path) -> None:
    pool.prepare(*asked(clip, tmp_path / "one"), never)
    pid = pid_of(pool)
    os.kill(pid, signal.SIGKILL)
    pool._idle[0]._process.wait()
    assert pool.prepare(*asked(clip, tmp_path / "two"), never).frame_times
    assert pid_of(pool) != pid


def test_a_cancelled_job_ends_its_process(pool: PreparationPool, clip: Path, tmp_path: Path) -> None:
    pid = pid_of(pool)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(Failure, match="It was cancelled"):
        pool.prepare(*asked(clip, tmp_path / "cancelled"), cancelled_once_begun(pool))
    assert is_gone(pid)
    assert pool.prepare(*asked(clip, tmp_path / "next"), never).frame_times


def test_a_job_does_not_wait_for_that_of_another_thread(pool: PreparationPool, clip: Path, tmp_path: Path) -> None:
    pid, waits = pid_of(pool), threading.Event()
    os.kill(pid, signal.SIGSTOP)

    def check() -> None:
        if pool._idle == []:
            waits.set()

    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(pool.prepare, *asked(clip, tmp_path / "slow"), check)
        assert waits.wait(ENOUGH)
        assert pool.prepare(*asked(clip, tmp_path / "quick"), never).frame_times
        os.kill(pid, signal.SIGCONT)
        assert slow.result(ENOUGH).frame_times
    assert pid in [process._process.pid for process in pool._idle] and len(pool._idle) == 2


def test_closing_ends_all_processes(checkpoint_dir: Path) -> None:
    pool = PreparationPool(checkpoint_dir, CONTEXT, 2)
    pids = [process._process.pid for process in pool._idle]
    pool.close()
    assert len(pids) == 2 and all(map(is_gone, pids))


def test_a_process_ends_with_its_worker_also_in_the_middle_of_a_file(checkpoint_dir: Path, clip: Path) -> None:
    """A worker that is killed closes nothing, but the kernel closes the pipe."""
    job = make_job(clip.name)
    command = [*preparation_pool._PROGRAM, str(checkpoint_dir), str(CONTEXT)]
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert program.stdin is not None and program.stdout is not None and program.stderr is not None
    assert program.stdout.readline() == b"\n"
    task = PreparationTask(job=job, paths=[str(clip)])
    program.stdin.write(task.model_dump_json().encode() + b"\n")
    program.stdin.close()
    assert program.wait(ENOUGH) == 1
    assert b"has ended" in program.stderr.read() and program.stdout.read() == b""


def test_a_process_without_a_job_ends_with_its_worker(checkpoint_dir: Path) -> None:
    command = [*preparation_pool._PROGRAM, str(checkpoint_dir), str(CONTEXT)]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=ENOUGH, check=True)
    assert ended.stdout == b"\n"


def test_a_full_disk_is_the_same_error_as_in_this_process(pool: PreparationPool, clip: Path, tmp_path: Path) -> None:
    job, paths = asked(clip, tmp_path / "job")
    paths[0].with_suffix(".seen.clip").symlink_to("/dev/full")
    pid = pid_of(pool)
    with pytest.raises(OSError, match="No space left") as raised:
        pool.prepare(job, paths, never)
    assert is_full_disk(raised.value) and pid_of(pool) == pid


def test_the_text_of_an_unexpected_error_goes_nowhere(
    pool: PreparationPool, clip: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It may quote the prompt. What remains is its class and where it was raised."""
    job, paths = asked(clip, tmp_path / "job")
    wrong = job.model_copy(update={"prompt": ["SECRET"]})
    with pytest.warns(UserWarning, match="Pydantic serializer"), pytest.raises(PreparationError) as raised:
        pool.prepare(wrong, paths, never)
    assert str(raised.value).startswith("ValidationError at preparation_program.py:")
    assert "SECRET" not in capfd.readouterr().err
    assert pool.prepare(job, paths, never).frame_times


def test_what_a_library_prints_does_not_come_between_results(
    checkpoint_dir: Path, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    program = (
        "import sys; from cosmos_batch.engines.reasoner import preparation_program as program\n"
        "prepare = program.prepare_request\n"
        "program.prepare_request = lambda *given: (print('{}', flush=True), prepare(*given))[1]\n"
        "program.main()"
    )
    monkeypatch.setattr(preparation_pool, "_PROGRAM", [sys.executable, "-c", program])
    pool = PreparationPool(checkpoint_dir, CONTEXT, 1)
    assert pool.prepare(*asked(clip, tmp_path / "job"), never).frame_times
    pool.close()
    assert capfd.readouterr().err == "{}\n"


def test_modules_in_the_current_folder_are_not_imported(
    checkpoint_dir: Path, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "av.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    pool = PreparationPool(checkpoint_dir, CONTEXT, 1)
    assert pool.prepare(*asked(clip, tmp_path / "job"), never).frame_times
    pool.close()


def test_a_prompt_that_fills_the_pipe_arrives_or_its_job_can_be_cancelled(
    pool: PreparationPool, clip: Path, tmp_path: Path
) -> None:
    long = "word " * 200_000
    with pytest.raises(Failure, match="fills the model's context"):
        pool.prepare(*asked(clip, tmp_path / "long", prompt=long), never)
    os.kill(pid_of(pool), signal.SIGSTOP)
    with pytest.raises(Failure, match="It was cancelled"):
        pool.prepare(*asked(clip, tmp_path / "cancelled", prompt=long), cancelled_once_begun(pool))


def test_a_job_that_was_cancelled_before_starts_no_process(checkpoint_dir: Path, clip: Path, tmp_path: Path) -> None:
    pool = PreparationPool(checkpoint_dir, CONTEXT, 0)

    def check() -> None:
        raise Failure("Cancelled", "It was cancelled.", "Ask again.")

    with pytest.raises(Failure, match="It was cancelled"):
        pool.prepare(*asked(clip, tmp_path / "job"), check)
    assert pool._idle == []


def test_a_process_that_cannot_be_started_leaves_no_others(
    checkpoint_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[PreparationProcess] = []

    def start(command: list[str]) -> PreparationProcess:
        if len(started) == 2:
            raise OSError("no more processes")
        started.append(PreparationProcess(command))
        return started[-1]

    monkeypatch.setattr(preparation_pool, "PreparationProcess", start)
    with pytest.raises(OSError, match="no more processes"):
        PreparationPool(checkpoint_dir, CONTEXT, 3)
    assert len(started) == 2 and not any(process.is_running for process in started)


def test_what_decodes_is_less_urgent_than_the_engine(pool: PreparationPool, clip: Path, tmp_path: Path) -> None:
    pool.prepare(*asked(clip, tmp_path / "job"), never)
    pid, own = pid_of(pool), os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, pid) == max(LESS_URGENT, own)
    assert os.getpgid(pid) != os.getpgid(0), "Ctrl-C in a terminal does not reach it"
    threads = MediaThreads()

    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    assert [pool.submit(niceness).result() for pool in (threads._small, threads._large)] == [max(LESS_URGENT, own)] * 2
    assert os.getpriority(os.PRIO_PROCESS, 0) == own, "the threads of the worker itself are as urgent as before"
    threads.close()


def test_what_is_less_urgent_already_stays_so() -> None:
    """A process may not lower its niceness without a capability."""
    niceness = "import os; from cosmos_batch.engines.job_threads import become_less_urgent as less; less(); less()"
    command = ["nice", "-n", "9", sys.executable, "-c", f"{niceness}; print(os.getpriority(os.PRIO_PROCESS, 0))"]
    assert int(subprocess.check_output(command)) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 9)


def test_a_requests_fields_all_reach_this_process(checkpoint_dir: Path, clip: Path, tmp_path: Path) -> None:
    """A field that is added to a request must be added to what the process writes."""
    job, paths = asked(clip, tmp_path / "job")
    request = prepare_request(CheckpointInfo.from_folder(checkpoint_dir, CONTEXT), job, paths, never)
    names = {*vars(request), "lines"} - {"journal"}
    assert names == set(WrittenRequest.model_fields)
