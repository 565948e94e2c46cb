"""The driver of a torchrun group, in a real group of two processes: a cancelled job leaves it to the next one."""

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.errors import EngineDied
from cosmos_batch.engines.serving.dialect import dialect_of
from cosmos_batch.engines.serving.served_model import ServedModel
from cosmos_batch.engines.torchrun.group import GroupPlan, send_work
from tests.support.torchrun_generators import ROOT

PROCESSES = 2


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedModel[GroupPlan]]:
    served = ServedModel(
        "adder", GroupPlan("Adder", "tests.support.torchrun_group", PROCESSES, ""), dialect_of("phyai")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        served.start(tmp_path_factory.mktemp("model"))
        yield served
        served.close()


async def ask(
    group: ServedModel[GroupPlan], root: Path, waits: Sequence[int | str] = (), content: str = ""
) -> dict[str, Any]:
    """Send the group a job, whose folder is `root/job`."""
    (folder := root / "job" / "group").mkdir(parents=True)
    (folder / "input").write_text(content)
    (root / "log").mkdir()
    body = {"folder": str(folder), "log": str(root / "log"), "waits": list(waits)}
    return await group.request(lambda connection: send_work(connection, body, "Adder", ""))


async def remove_job(root: Path, logged: set[str]) -> None:
    """Remove a job's folder as soon as its processes have logged this."""
    while {path.name for path in (root / "log").glob("*")} != logged:
        await asyncio.sleep(0.01)
    shutil.rmtree(root / "job")


@pytest.mark.parametrize(
    ("waits", "logged"),
    [
        (["check"], {"waits-0"}),
        ([0, 1], {"waits-0", "waits-1"}),
        ([1], {"reads-0", "waits-1"}),
        ([0], {"waits-0", "reads-1"}),
    ],
    ids=["in the check", "in all processes", "in the second process", "in the first process"],
)
def test_a_job_whose_folder_goes_before_it_is_read_leaves_the_group_to_the_next(
    group: ServedModel[GroupPlan], tmp_path: Path, waits: list[int | str], logged: set[str]
) -> None:
    async def scene() -> None:
        first, later = tmp_path / "first", tmp_path / "later"
        before = await ask(group, tmp_path / "before")
        asking = asyncio.ensure_future(ask(group, first, waits))
        await remove_job(first, logged)
        with pytest.raises(Failure, match="The folder of the job is gone"):
            await asking
        assert await ask(group, later) == before, "the group was not started again"

    asyncio.run(scene())


def test_a_fault_that_no_cancelled_job_explains_ends_the_group(group: ServedModel[GroupPlan], tmp_path: Path) -> None:
    async def scene() -> None:
        before = await ask(group, tmp_path / "before")
        with pytest.raises(EngineDied):
            await ask(group, tmp_path / "fails", content="fail")
        after = await ask(group, tmp_path / "after")
        assert after["sum"] == before["sum"] == 1 and after["process"] != before["process"]

    asyncio.run(scene())
