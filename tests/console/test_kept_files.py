"""Files that are made on demand."""

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
