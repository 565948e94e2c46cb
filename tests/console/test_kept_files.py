"""Files that are made on demand."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from cosmos_batch.console.kept_files import KeptFiles
from cosmos_batch.contract.error import Failure


def test_a_file_is_made_once_for_all_who_ask_together(tmp_path: Path) -> None:
    kept = KeptFiles(tmp_path / "kept", 1000)
    made: list[Path] = []
    go = Event()

    def make(path: Path) -> None:
        assert go.wait(60)
        made.append(path)
        path.write_text("made")

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(kept.get, "key", make) for _ in range(4)]
        go.set()
        assert {one.result().read_text() for one in asked} == {"made"}
    assert len(made) == 1


def wait_for_users(kept: KeptFiles, count: int) -> None:
    """Wait until so many threads make the only file, or wait for it."""
    while sum(making.users for making in list(kept._making.values())) < count:
        time.sleep(0.01)


def test_after_a_defect_no_two_make_a_file_at_the_same_time(tmp_path: Path) -> None:
    kept = KeptFiles(tmp_path / "kept", 1000)
    first_may_end, second_makes, second_may_end, third_makes = (Event() for _ in range(4))

    def fail(path: Path) -> None:
        assert first_may_end.wait(60)
        raise OSError("The disk is full.")

    def make(path: Path) -> None:
        second_makes.set()
        assert second_may_end.wait(60)
        path.write_text("second")

    def make_again(path: Path) -> None:
        third_makes.set()
        path.write_text("third")

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(kept.get, "key", fail)
        wait_for_users(kept, 1)
        second = pool.submit(kept.get, "key", make)
        wait_for_users(kept, 2)
        first_may_end.set()
        assert second_makes.wait(60)
        third = pool.submit(kept.get, "key", make_again)
        assert not third_makes.wait(0.5)
        second_may_end.set()
        assert (second.result().read_text(), third.result().read_text()) == ("second", "second")
    assert isinstance(first.exception(), OSError)
    assert not kept._making


def test_the_least_recently_used_file_is_deleted_first(tmp_path: Path) -> None:
    kept = KeptFiles(tmp_path / "kept", 250)
    made: list[str] = []

    def ask(key: str) -> None:
        def make(path: Path) -> None:
            made.append(key)
            path.write_bytes(bytes(100))

        assert kept.get(key, make).stat().st_size == 100

    for key in ("a", "b", "a", "c", "a", "b"):
        ask(key)
    assert made == ["a", "b", "c", "b"]
    assert len(list((tmp_path / "kept").iterdir())) == 2


def test_a_failure_is_kept_and_a_defect_is_not(tmp_path: Path) -> None:
    kept = KeptFiles(tmp_path / "kept", 250)
    calls: list[Path] = []

    def fail(path: Path) -> None:
        calls.append(path)
        path.write_text("half")
        raise Failure("InvalidInput", "It is damaged.", "Copy it again.")

    for _ in range(3):
        with pytest.raises(Failure, match="damaged"):
            kept.get("key", fail)
    assert len(calls) == 1

    def interrupted(_: Path) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        kept.get("other", interrupted)
    assert kept.get("other", lambda path: path.write_text("now")).read_text() == "now"
    assert len(list((tmp_path / "kept").iterdir())) == 1
