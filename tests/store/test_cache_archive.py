"""Folders are packed into archives and extracted, and damaged or hostile archives are refused."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from cosmos_batch.store import cache_archive
from cosmos_batch.store.cache_archive import UnusableArchiveError, extract_archive, list_files, write_archive

MADE_FOR = {"vllm": "0.32.0", "gpus": "NVIDIA H100, 580.95"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "compiled"
    (folder / "triton" / "ab").mkdir(parents=True)
    (folder / "triton" / "ab" / "kernel.so").write_bytes(b"\x7fELF" * 500)
    (folder / "graph.py").write_text("graph = 1\n")
    (folder / "triton" / "ab" / "kernel.lock").touch()
    (folder / "jit.log").write_text("noise")
    (folder / "secret").symlink_to("/etc/passwd")
    return folder


@pytest.fixture
def packed(folder: Path, tmp_path: Path) -> Path:
    write_archive(folder, MADE_FOR, tmp_path / "pack")
    return tmp_path / "pack"


def write(target: Path, *members: tarfile.TarInfo, label: object = None) -> Path:
    """Write a tar with a label and other members of four bytes each."""
    text = json.dumps(label or {"madeFor": MADE_FOR, "files": 1, "size": 4}).encode()
    with tarfile.open(target, "w") as archive:
        first = tarfile.TarInfo("label.json")
        first.size = len(text)
        archive.addfile(first, io.BytesIO(text))
        for member in members:
            archive.addfile(member, io.BytesIO(b"code") if member.isreg() else None)
    return target


def member(name: str, size: int = 4, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def test_an_archive_restores_the_same_files(folder: Path, packed: Path, tmp_path: Path) -> None:
    extract_archive(packed, MADE_FOR, tmp_path / "out")
    assert list_files(tmp_path / "out") == list_files(folder) == {"triton/ab/kernel.so": 2000, "graph.py": 10}
    assert (tmp_path / "out/graph.py").read_text() == "graph = 1\n"


def test_modification_times_are_kept(folder: Path, packed: Path, tmp_path: Path) -> None:
    extract_archive(packed, MADE_FOR, tmp_path / "out")
    before, after = ((directory / "graph.py").stat().st_mtime for directory in (folder, tmp_path / "out"))
    assert after == pytest.approx(before, abs=1e-6)


@pytest.mark.parametrize("made_for", [{}, {**MADE_FOR, "gpus": "NVIDIA L40S, 580.95"}, {"vllm": "0.32.0"}])
def test_an_archive_for_something_else_is_refused(packed: Path, tmp_path: Path, made_for: dict[str, str]) -> None:
    with pytest.raises(UnusableArchiveError, match="made for"):
        extract_archive(packed, made_for, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_truncated_archive_is_refused(packed: Path, tmp_path: Path) -> None:
    whole = packed.read_bytes()
    end_of_files = len(whole.rstrip(b"\0"))
    for length in [*range(0, end_of_files, 512), end_of_files - 1]:
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(UnusableArchiveError):
            extract_archive(tmp_path / "cut", MADE_FOR, tmp_path / f"out-{length}")


@pytest.mark.parametrize("noise", [b"", b"PK\x03\x04 not this one", b"\x1f\x8b" + b"\0" * 600, bytes(10240)])
def test_a_file_that_is_no_archive_is_refused(tmp_path: Path, noise: bytes) -> None:
    (tmp_path / "pack").write_bytes(noise)
    with pytest.raises(UnusableArchiveError):
        extract_archive(tmp_path / "pack", MADE_FOR, tmp_path / "out")


@pytest.mark.parametrize(
    "label", ["text", {"files": 1, "size": 4}, {"madeFor": MADE_FOR, "files": -1, "size": 4}, {"madeFor": 1}]
)
def test_an_invalid_label_is_refused(tmp_path: Path, label: object) -> None:
    with pytest.raises(UnusableArchiveError):
        extract_archive(write(tmp_path / "pack", member("a"), label=label), MADE_FOR, tmp_path / "out")


@pytest.mark.parametrize(
    "hostile",
    [
        member("../outside"),
        member("a/../../outside"),
        member("/etc/cron.d/outside"),
        member("link", 0, type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("link", 0, type=tarfile.LNKTYPE, linkname="label.json"),
        member("pipe", 0, type=tarfile.FIFOTYPE),
        member("device", 0, type=tarfile.CHRTYPE),
    ],
    ids=lambda directory: directory.name + str(directory.type),
)
def test_only_regular_files_inside_of_the_folder_are_extracted(tmp_path: Path, hostile: tarfile.TarInfo) -> None:
    out = tmp_path / "deep" / "out"
    label = {"madeFor": MADE_FOR, "files": 1, "size": hostile.size}
    try:
        extract_archive(write(tmp_path / "pack", hostile, label=label), MADE_FOR, out)
    except UnusableArchiveError:
        pass
    else:
        assert list_files(out) == {"etc/cron.d/outside": 4}, "what was absolute is inside"
    assert {path.name for path in tmp_path.iterdir()} <= {"pack", "deep"}


def test_more_files_or_bytes_than_the_label_says_are_refused(tmp_path: Path) -> None:
    for label in ({"files": 1, "size": 8}, {"files": 2, "size": 4}):
        pack = write(tmp_path / "pack", member("a"), member("b"), label={"madeFor": MADE_FOR, **label})
        with pytest.raises(UnusableArchiveError, match="b does not belong"):
            extract_archive(pack, MADE_FOR, tmp_path / "out")


def test_a_label_over_the_size_limit_is_refused(tmp_path: Path) -> None:
    pack = write(tmp_path / "pack", label={"madeFor": MADE_FOR, "files": 1, "size": cache_archive.SIZE_LIMIT + 1})
    with pytest.raises(UnusableArchiveError):
        extract_archive(pack, MADE_FOR, tmp_path / "out")


def test_modes_and_owners_are_reset(tmp_path: Path) -> None:
    odd = member("a", mode=0o6777, uid=12345, gid=12345, uname="somebody")
    extract_archive(write(tmp_path / "pack", odd), MADE_FOR, tmp_path / "out")
    status = (tmp_path / "out/a").stat()
    assert status.st_mode & 0o6022 == 0
    assert status.st_uid == tmp_path.stat().st_uid


def test_a_folder_that_changes_meanwhile_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = tarfile.TarFile.add

    def meanwhile(self: tarfile.TarFile, *arguments: object, **named: object) -> None:
        (folder / "new.py").touch()
        add(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(tarfile.TarFile, "add", meanwhile)
    with pytest.raises(UnusableArchiveError, match="changed"):
        write_archive(folder, MADE_FOR, tmp_path / "pack")
