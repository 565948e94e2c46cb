"""The check of an engine's restarts, on a group of processes with a stand-in for PhyAI."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.generator.jobs import TINY
from benchmarks.generator.restarts import Restarts, program_of
from cosmos_batch.engines.generator.phyai.engine import PhyaiEngine
from tests.support.torchrun_generators import checkpoint_in, loaded

STANDIN = Path(__file__).parents[2] / "engines" / "phyai_standin"


@pytest.mark.slow  # each death of a process takes a start of the group
def test_each_process_is_killed_while_a_job_runs_and_the_next_job_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COSMOS_STANDIN_STEP_SECONDS", "0.5")
    (checkpoint := tmp_path / "Cosmos3-Nano").mkdir()
    with loaded(PhyaiEngine(), checkpoint_in(checkpoint), STANDIN) as engine:
        found = asyncio.run(Restarts(engine, replace(TINY, steps=6), "64x48", tmp_path).measure())
    assert found["job"] > 3 and found["jobAfterCancelled"] > 3
    programs = [kill["process"] for kill in found["kills"]]
    assert programs[0] == "torch.distributed.run" and len(programs) == 3
    assert all(program.endswith("phyai.driver") for program in programs[1:])
    assert all(0 <= kill["jobDied"] < kill["nextAnswer"] for kill in found["kills"][1:])


def test_a_process_is_told_by_what_it_runs_and_not_by_where_it_is() -> None:
    assert program_of(["/opt/python3", "-u", "-m", "pack.module", "--work", "/tmp/x"]) == "pack.module"
    assert program_of(["/opt/bin/server", "serve", ""]) == "server"
