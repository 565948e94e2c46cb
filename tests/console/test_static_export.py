"""The static files of an export."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
from PIL import Image

from cosmos_batch.cli.main import main
from cosmos_batch.console.collection import Entry
from cosmos_batch.console.export_archives import ExportArchives
from cosmos_batch.console.folder import FolderCollection
from cosmos_batch.console.redaction import redact
from cosmos_batch.console.static_export import StaticExport
from cosmos_batch.contract.error import Failure
from tests.console.conftest import URL, Open
from tests.support import media_files
from tests.support.browser import opened_view
from tests.support.console_documents import write_answer


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("s3://cosmos-batch-123456789012-in/a/clip.mp4", "s3://bucket/a/clip.mp4"),
        ("arn:aws:iam::123456789012:role/x", "arn:aws:iam::…:role/x"),
        ("arn:aws:s3:::my-bucket/x", "arn:aws:s3:::bucket/x"),
        ("https://b.s3.amazonaws.com/k?X-Amz-Signature=abc&X-Amz-Date=1 ok", "https://bucket.s3.amazonaws.com/k ok"),
        ("https://a.b/k?v=a?b&Signature=abc?d ok", "https://a.b/k?v=a ok"),
        ("https://a.b.s3.eu-west-1.amazonaws.com/k/l.mp4", "https://bucket.s3.eu-west-1.amazonaws.com/k/l.mp4"),
        ("https://s3.eu-west-1.amazonaws.com/b/k", "https://s3.eu-west-1.amazonaws.com/bucket/k"),
        ("token hf_abcdefghijklmnop", "token …"),
        ("AKIAABCDEFGHIJKLMNOP, Bearer abc.def", "…, …"),
        ("akiaabcdefghijklmnop, bearer abc.def", "…, …"),
        ("read /home/ann/secret project/a.mp4", "read …/a.mp4"),
        ("copy /home/ann/a.mp4 to /home/bob/my clips/b.mp4", "copy …/a.mp4 to …/b.mp4"),
        ("'/home/ann/Ann's clips, 2026/a.mp4'", "'…/a.mp4'"),
        ("/home/ann/a.mp4: see https://a.b/c/d", "…/a.mp4: see https://a.b/c/d"),
        ("in /home/ann.", "in …"),
        ("file:///home/ann/a.mp4", "…/a.mp4"),
        ("error:/home/ann/a.mp4", "error:…/a.mp4"),
        ("//server/ann/a.mp4", "…/a.mp4"),
        ("\\\\server\\ann\\a.mp4", "…/a.mp4"),
        ("C:\\Users\\ann\\My Clips\\a.mp4", "…/a.mp4"),
        ("C:/Users/ann/a.mp4", "…/a.mp4"),
        ("s3://b/123456789012/a/b.mp4", "s3://bucket/…/a/b.mp4"),
        ("1/2 and/or 3 km/h at 12:30, 12345678901234", "1/2 and/or 3 km/h at 12:30, 12345678901234"),
    ],
)
def test_secrets_accounts_and_paths_are_redacted(text: str, left: str) -> None:
    assert redact({"a": [text], text: 1}) == {"a": [left], left: 1}


def test_a_long_text_takes_no_longer_than_it_is_long() -> None:
    """From each of its question marks, the rest was searched: an answer of this length took six minutes."""
    assert redact("?" * 131_072) == "?" * 131_072


def test_logs_are_left_out() -> None:
    assert redact({"jobLogs": "x", "batchJobId": "x", "result": 1.5}) == {"result": 1.5}


def test_the_folder_of_an_archive_shows_no_account(tmp_path: Path) -> None:
    write_answer(tmp_path / "of-123456789012" / "a.json")
    archives = ExportArchives(tmp_path / "exports")
    with opened_view(tmp_path / "of-123456789012") as view:
        made = archives.make(view, [1], False)
    file = archives.file(made.url.rpartition("/")[2])
    assert file is not None
    assert {name.partition("/")[0] for name in ZipFile(file).namelist()} == {"of-…-page"}


def test_nothing_is_exported_of_a_folder_that_was_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreadable(*_: object) -> Iterator[Entry]:
        raise OSError("disk is gone")

    monkeypatch.setattr(FolderCollection, "changes", unreadable)
    assert main(["view", str(tmp_path), "--export", str(tmp_path / "page")]) == 1
    assert "documents would be missing" in capsys.readouterr().err and not (tmp_path / "page").exists()
    with opened_view(tmp_path) as view, pytest.raises(Failure, match="disk is gone"):
        ExportArchives(tmp_path / "exports").make(view, [1], False)


def folder(path: Path) -> Path:
    path.mkdir()
    media_files.video(path / "clip.avi", frames=5)
    media_files.image(path / "red.png")
    where = "s3://cosmos-batch-123456789012-in/clip.avi"
    write_answer(path / "a.json", inputFile="clip.avi", inputUri=where, jobLogs=f"in {path}", result="</script>&")
    write_answer(path / "b.json", inputFile="red.png", result=f"{path}/red.png hf_abcdefghijklmnop")
    return path


def test_an_export_contains_its_media(tmp_path: Path) -> None:
    source, target, said = folder(tmp_path / "source"), tmp_path / "page", list[str]()
    with opened_view(source) as view:
        export = StaticExport(view)
        assert export.documents == 2
        assert export.media_size() == (2, sum((source / name).stat().st_size for name in ("clip.avi", "red.png")))
        export.write(target, True, said.append)
    files = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert files == {
        *("index.html", "app.js", "app.css", "data/rows.js", "data/details-0.js"),
        *("media/1/0-poster.jpg", "media/1/0.mp4", "media/2/0-poster.jpg", "media/2/0.png"),
    }
    assert not said
    assert [media["leftOut"] for media in exported_media(target)] == [None, None]
    data = (target / "data" / "rows.js").read_text() + (target / "data" / "details-0.js").read_text()
    for secret in (str(tmp_path), "123456789012", "hf_abcdefgh", "</script"):
        assert secret not in data
    rows = json.loads((target / "data" / "rows.js").read_text().removeprefix("window.cosmosBatch = "))
    assert rows["state"]["exported"] and [row["poster"] for row in rows["rows"]] == [
        "media/1/0-poster.jpg",
        "media/2/0-poster.jpg",
    ]


def test_the_page_is_told_how_much_the_media_of_a_selection_are(open_console: Open, tmp_path: Path) -> None:
    source = folder(tmp_path / "source")
    write_answer(source / "c.json", inputFile="red.png")
    client = open_console(source)
    sizes = [(source / name).stat().st_size for name in ("clip.avi", "red.png")]
    for selection, media in (
        ({"query": {}}, {"files": 2, "bytes": sum(sizes)}),
        ({"query": {"search": "hf_"}}, {"files": 1, "bytes": sizes[1]}),
        ({"items": []}, {"files": 0, "bytes": 0}),
    ):
        answer = client.post("/api/views/folder/media-size", json=selection, headers={"origin": URL})
        assert answer.json() == media


def test_an_export_without_media_says_how_much_it_leaves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = folder(tmp_path / "source"), tmp_path / "page"
    assert main(["view", str(source), "--export", str(target)]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{target / 'index.html'}\n"
    assert "2 media files of 0.0 MB" in printed.err and "--media" in printed.err
    assert {path.name for path in (target / "media").rglob("*.*")} == {"0-poster.jpg"}
    for media in exported_media(target):
        assert "export again with --media" in media["leftOut"] and media["url"] is None


def exported_media(target: Path) -> list[dict[str, str]]:
    """Return what the page of an export is told of the media of all documents."""
    text = (target / "data" / "details-0.js").read_text().removeprefix("cosmosBatch.details(")
    return [media for detail in json.loads(text.rstrip("\n)")) for media in detail["media"]]


def test_a_damaged_file_is_left_out_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_answer(tmp_path / "in" / "a.json")
    (tmp_path / "in" / "clip.mp4").write_bytes(b"\0\0\0\x18ftypmp42" + bytes(100))
    assert main(["view", str(tmp_path / "in"), "--export", str(tmp_path / "page"), "--media"]) == 0
    assert "Left out: clip.mp4" in capsys.readouterr().err


def test_a_video_of_one_pixel_is_left_out_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H.264 has no odd sides, so that a column or row too many is cut off: here the only one."""
    write_answer(tmp_path / "in" / "a.json", inputFile="dot.gif")
    Image.new("RGB", (1, 1)).save(tmp_path / "in" / "dot.gif")
    assert main(["view", str(tmp_path / "in"), "--export", str(tmp_path / "page"), "--media"]) == 0
    assert "Left out: dot.gif: The video is too narrow" in capsys.readouterr().err


def test_an_export_that_is_interrupted_leaves_nothing_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = folder(tmp_path / "source"), tmp_path / "page"
    arguments = ["view", str(source), "--export", str(target)]

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as fault:
        fault.setattr(StaticExport, "_write_rows", interrupt)
        assert main(arguments) == 130
    assert not target.exists()
    assert main(arguments) == 0 and (target / "index.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["in", "--export", "full"], 2, "is no empty folder"),
        (["in", "--media"], 2, "belongs to --export"),
        (["empty", "--export", "new"], 1, "holds no documents"),
        (["missing"], 2, "no folder and no file of this machine, and no run"),
        (["missing/"], 2, "no folder and no file"),
        (["in", "--port", "70000"], 2, "70000"),
    ],
)
def test_an_export_that_is_impossible_is_refused_with_the_reason(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    write_answer(tmp_path / "in" / "a.json")
    write_answer(tmp_path / "full" / "a.json")
    (tmp_path / "empty").mkdir()
    assert main(["view", *arguments]) == status
    assert said in capsys.readouterr().err
