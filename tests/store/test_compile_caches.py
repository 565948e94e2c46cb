"""Compiled code is kept for the next worker, and no fault of it stops a worker."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from cosmos_batch.store import CompileCaches, compile_caches
from cosmos_batch.store.cache_archive import list_files

MADE_FOR = {"vllm": "0.32.0", "gpus": "NVIDIA L40S, 580.95", "model": "nvidia/Cosmos-Reason2-2B"}
Keys = Callable[[], list[str]]


@pytest.fixture
def caches(s3: Any, bucket: str, tmp_path: Path) -> Callable[..., CompileCaches]:
    """Return a function that creates the caches of a worker on a machine of its own."""
    return lambda name="first": CompileCaches(tmp_path / name / ".cache" / "ours", "cosmos-reason2-2b", bucket, s3)


def compiled(caches: CompileCaches, made_for: dict[str, str] = MADE_FOR, name: str = "graph.py") -> Path:
    """Restore the caches, add a compiled file, and return the folder."""
    folder = caches.restore(made_for)
    assert folder is not None
    (folder / name).write_text("graph = 1")
    return folder


def test_a_second_worker_starts_with_the_code_of_the_first(caches: Callable[..., CompileCaches], keys: Keys) -> None:
    first = caches()
    compiled_folder = compiled(first)
    assert first.keep()
    [key] = keys()
    assert key.startswith("caches/cosmos-reason2-2b/") and key.endswith(".tar")
    other = caches("second").restore(MADE_FOR)
    assert other is not None and list_files(other) == list_files(compiled_folder) == {"graph.py": 9}
    assert other.name == compiled_folder.name, "compiled files name each other by their paths"


def test_caches_are_uploaded_again_only_if_something_is_new(caches: Callable[..., CompileCaches], s3: Any) -> None:
    first = caches()
    folder = compiled(first)
    assert [first.keep(), first.keep()] == [True, False]
    (folder / "run.log").write_text("of this run")
    assert not first.keep()
    second = caches("second")
    second.restore(MADE_FOR)
    assert not second.keep()
    compiled(second, name="more.py")
    assert second.keep()
    third = caches("third").restore(MADE_FOR)
    assert third is not None and set(list_files(third)) == {"graph.py", "more.py"}


def test_without_compiled_code_nothing_is_uploaded(caches: Callable[..., CompileCaches], keys: Keys) -> None:
    assert not caches().keep()
    first = caches()
    assert first.restore(MADE_FOR) is not None
    assert not first.keep() and keys() == []


@pytest.mark.parametrize("differs", MADE_FOR)
def test_another_gpu_driver_model_or_software_has_its_own_caches(
    caches: Callable[..., CompileCaches], keys: Keys, differs: str
) -> None:
    first = caches()
    compiled(first)
    first.keep()
    second = caches("second")
    other = {**MADE_FOR, differs: "another"}
    folder = second.restore(other)
    assert folder is not None and list_files(folder) == {}
    compiled(second, other)
    second.keep()
    assert len(keys()) == 2


def spoil(s3: Any, bucket: str, change: Callable[[bytes], bytes]) -> None:
    [entry] = s3.list_objects_v2(Bucket=bucket)["Contents"]
    body = s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()
    s3.put_object(Bucket=bucket, Key=entry["Key"], Body=change(body))


@pytest.mark.parametrize(
    "change",
    [
        lambda _: b"",
        lambda body: body[:1540],
        lambda body: body[:1300],
        lambda body: b"x" * len(body),
        lambda body: body.replace(b"0.32.0", b"0.26.0"),
    ],
    ids=["empty", "cut-in-file", "cut-in-name", "noise", "foreign"],
)
def test_a_damaged_or_foreign_archive_is_replaced(
    caches: Callable[..., CompileCaches],
    s3: Any,
    bucket: str,
    change: Callable[[bytes], bytes],
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = caches()
    compiled(first)
    first.keep()
    spoil(s3, bucket, change)
    second = caches("second")
    folder = second.restore(MADE_FOR)
    assert folder is not None and list_files(folder) == {}
    assert [path.name for path in folder.parent.iterdir()] == [folder.name], "nothing partial is left"
    assert any("is not used" in record.getMessage() for record in caplog.records)
    compiled(second)
    assert second.keep()
    third = caches("third").restore(MADE_FOR)
    assert third is not None and list_files(third) == {"graph.py": 9}


def test_an_archive_over_the_size_limit_is_not_fetched(
    caches: Callable[..., CompileCaches], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = caches()
    compiled(first)
    first.keep()
    monkeypatch.setattr(compile_caches, "SIZE_LIMIT", 100)
    folder = caches("second").restore(MADE_FOR)
    assert folder is not None and list_files(folder) == {}
    assert any("more than the limit of 100" in record.getMessage() for record in caplog.records)


def test_a_folder_that_is_there_already_is_kept(caches: Callable[..., CompileCaches]) -> None:
    """When a model is renewed, the same worker restores the caches again."""
    first = caches()
    folder = compiled(first)
    assert first.restore(MADE_FOR) == folder
    assert list_files(folder) == {"graph.py": 9}


def test_without_s3_the_engine_compiles_and_a_warning_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config(connect_timeout=1, retries={"total_max_attempts": 1})
    s3 = boto3.client("s3", endpoint_url="http://127.0.0.1:9", region_name="us-east-1", config=config)
    first = CompileCaches(tmp_path / "ours", "cosmos-reason2-2b", "bucket", s3)
    compiled(first)
    assert not first.keep()
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2 and "could not be kept" in warnings[1]


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_that_others_can_write_to_is_not_used(
    caches: Callable[..., CompileCaches], tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "first" / ".cache" / "ours"
    root.mkdir(parents=True)
    root.chmod(mode)
    first = caches()
    assert first.restore(MADE_FOR) is None
    assert "is not ours alone" in caplog.text
    assert not first.keep()


def test_a_link_to_a_folder_is_not_used(caches: Callable[..., CompileCaches], tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "first" / ".cache").mkdir(parents=True)
    (tmp_path / "first" / ".cache" / "ours").symlink_to(tmp_path / "elsewhere")
    assert caches().restore(MADE_FOR) is None


def test_a_folder_of_another_user_is_not_used(
    caches: Callable[..., CompileCaches], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(caches())
    monkeypatch.setattr("os.geteuid", lambda: 54321)
    assert caches().restore(MADE_FOR) is None


def test_without_a_writable_folder_there_are_no_caches(
    s3: Any, bucket: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    caches = CompileCaches(tmp_path / "file" / "ours", "cosmos-reason2-2b", bucket, s3)
    assert caches.restore(MADE_FOR) is None
    assert "nothing compiled is kept" in caplog.text
