"""Manifests accept only file names inside of the directory, and are ignored if damaged or misplaced."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cosmos_batch.store.manifest import IncompleteCopyError, ModelFile, ModelManifest

COMMIT = "0123456789" * 4


def manifest_of(*files: ModelFile) -> ModelManifest:
    return ModelManifest(model="a/b", commit=COMMIT, files=files, published_at=datetime.now(UTC), source="huggingface")


@given(st.text(alphabet="a./\\\0~", max_size=10) | st.text())
def test_every_accepted_file_name_is_inside_of_the_directory(name: str) -> None:
    try:
        file = ModelFile(name=name, size=1)
    except ValidationError:
        return
    assert Path("/model") in Path("/model", file.name).resolve().parents


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/../../x", "/etc/passwd", "a//b", "a/", "manifest.json"])
def test_hostile_file_names_are_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        ModelFile(name=name, size=1)


def test_a_manifest_is_read_as_written(tmp_path: Path) -> None:
    manifest = manifest_of(ModelFile(name="x/y", size=3, sha256="ab"), ModelFile(name="z", size=0))
    manifest.write(tmp_path)
    text = (tmp_path / "manifest.json").read_bytes()
    assert b'"publishedAt"' in text
    assert ModelManifest.read(text, "a/b", COMMIT) == manifest


@pytest.mark.parametrize("place", [("a/c", COMMIT), ("a/b", "f" * 40)])
def test_a_manifest_of_another_model_or_commit_is_ignored(tmp_path: Path, place: tuple[str, str]) -> None:
    text = manifest_of(ModelFile(name="x", size=1)).model_dump_json().encode()
    assert ModelManifest.read(text, *place) is None


@pytest.mark.parametrize("text", [b"", b"{}", b"\xff", b"[1]"])
def test_a_damaged_manifest_is_ignored(text: bytes) -> None:
    assert ModelManifest.read(text, "a/b", COMMIT) is None


def test_verify_names_missing_and_incomplete_files(tmp_path: Path) -> None:
    manifest = manifest_of(
        ModelFile(name="gone", size=1), ModelFile(name="short", size=2), ModelFile(name="ok", size=1)
    )
    (tmp_path / "short").write_bytes(b"1")
    (tmp_path / "ok").write_bytes(b"1")
    with pytest.raises(IncompleteCopyError, match=r"2 of 3 files .*: gone, short"):
        manifest.verify(tmp_path)
