"""The benchmark of a start asks about a clip, and says how long each phase took."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.reasoner import start, start_page
from benchmarks.reasoner.clips import make_clips
from cosmos_batch.demo.checkpoint import build_random_checkpoint
from tests.support.real_vllm import needs_vllm


@needs_vllm
@pytest.mark.slow
def test_a_start_ends_with_the_first_answer_about_a_clip(tmp_path: Path) -> None:
    [clip] = make_clips(tmp_path / "clips", 1, 1)
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    command = [sys.executable, "-m", "benchmarks.reasoner.start", str(build_random_checkpoint(tmp_path)), str(clip)]
    done = subprocess.run([*command, str(bucket)], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["answered"] > start.BEGAN
    assert {"boot", "caches", "engine", "answer", "engine: imports", "engine: rest"} <= set(found["phases"])
    assert found["phases"]["answer"] > 0 < found["phases"]["engine: imports"]


def test_phases_of_a_start_add_up_to_all_of_it() -> None:
    phases = {"boot": 1.0, "caches": 0.5, "engine": 30.0, "answer": 4.0, "engine: imports": 20.0, "engine: rest": 9.0}
    parts = start_page.phases_of({"seconds": 36.0, "phases": phases})
    assert parts == {"imports": 20.0, "rest": 9.0, "the worker itself": 3.0, "the first clip": 4.0, "all": 36.0}
