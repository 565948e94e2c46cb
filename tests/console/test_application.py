"""The answers to the page's requests."""

import gzip
import io
import json
import os
from array import array
from pathlib import Path
from threading import Event

import pytest
from PIL import Image
from starlette.testclient import TestClient

from cosmos_batch.console import queries
from cosmos_batch.console.records import Query
from cosmos_batch.console.scanning import Scan
from tests.console.conftest import URL, Open
from tests.support import media_files
from tests.support.console_documents import write_answer, write_failure, write_generation


def rows(client: TestClient, **query: str | int) -> list[dict[str, object]]:
    answer = client.get("/api/views/folder/rows", params=query)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["rows"])


def test_each_kind_of_document_has_a_row(open_console: Open, tmp_path: Path, clip: Path) -> None:
    (tmp_path / "clip.mp4").write_bytes(clip.read_bytes())
    write_answer(tmp_path / "answers" / "clip.json", data=[{"bbox_2d": [0, 0, 10, 10], "label": "dog"}])
    write_generation(tmp_path / "made.json", ["clip.mp4"])
    write_failure(tmp_path / "failed.json", "InvalidInput", "It is truncated.", "other.mp4")
    (tmp_path / "other.json").write_text('{"result": 1}')
    (tmp_path / "broken.json").write_text("{")
    client = open_console(tmp_path)
    assert [(row["kind"], row["name"], row["errorCode"]) for row in rows(client)] == [
        ("error", "other.mp4", "InvalidInput"),
        ("generation", "clip.mp4", None),
        ("answer", "clip.mp4", None),
    ]
    assert [row["poster"] is not None for row in rows(client)] == [False, True, True]
    state = client.get("/api/views/folder/state").json()
    assert (state["jsonFiles"], state["documents"], state["succeeded"], state["failed"]) == (5, 3, 2, 1)
    assert state["done"] and state["problem"] is None
    assert state["labels"] == [{"value": "dog", "count": 1}]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"search": "ROBOT water"}, ["made.mp4"]),
        ({"search": "ob"}, ["made.mp4"]),
        ({"search": 'a" OR "b'}, []),
        ({"search": "100%_"}, ["b.mp4"]),
        ({"search": "МОСТ"}, ["b.mp4"]),
        ({"search": "ст"}, ["b.mp4"]),
        ({"search": "т"}, ["b.mp4"]),
        ({"search": "STRASSE"}, ["b.mp4"]),
        ({"search": "straße"}, ["b.mp4"]),
        ({"search": "οδος"}, ["b.mp4"]),
        ({"search": "zz"}, []),
        ({"search": "robot zz"}, []),
        ({"status": "failed"}, ["c.mp4"]),
        ({"status": "succeeded", "sort": "name"}, ["a.mp4", "b.mp4", "made.mp4"]),
        ({"errorCode": "TimedOut"}, ["c.mp4"]),
        ({"model": "nvidia/Cosmos3-Nano"}, ["made.mp4"]),
        ({"label": "dog"}, ["a.mp4"]),
        ({"label": "dog' OR 1=1 --"}, []),
        ({"sort": "oldest", "limit": 1, "offset": 1}, ["b.mp4"]),
        ({"offset": 99}, []),
    ],
)
@pytest.mark.parametrize("looked_at", [1, 2000])
def test_rows_are_searched_filtered_and_sorted(
    open_console: Open,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    query: dict[str, str],
    found: list[str],
    looked_at: int,
) -> None:
    """Rows are the same where the first documents are looked at, and where FTS5 finds the words in the others."""
    monkeypatch.setattr(queries, "_LOOKED_AT", looked_at)
    write_answer(
        tmp_path / "1.json", inputFile="a.mp4", timestamp="20260101-000001", data={"point_2d": [1, 1], "label": "dog"}
    )
    write_answer(tmp_path / "2.json", inputFile="b.mp4", timestamp="20260101-000002", result="100%_ мост, Straße, ΟΔΟΣ")
    write_failure(tmp_path / "3.json", "TimedOut", "It took long.", "c.mp4", "20260101-000003")
    write_generation(tmp_path / "4.json", ["made.mp4"], timestamp="20260101-000004")
    assert [row["name"] for row in rows(open_console(tmp_path), **query)] == found


def test_the_first_rows_of_a_frequent_word_wait_for_no_search_in_all_documents(
    open_console: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        write_answer(tmp_path / f"{number}.json", timestamp=f"20260101-00000{number}", result=f"A circle, {number}.")
    monkeypatch.setattr(queries, "_LOOKED_AT", 3)
    client = open_console(tmp_path)
    go_on, collect = Event(), queries._collect

    def waiting(file: Path, query: Query) -> "array[int]":
        go_on.wait()
        return collect(file, query)

    monkeypatch.setattr(queries, "_collect", waiting)
    url = "/api/views/folder/rows?search=circle&limit=2"
    try:
        for _ in range(2):
            first = client.get(url).json()
            assert (first["total"], first["exact"]) == (3, False)
            assert [row["answer"] for row in first["rows"]] == ["A circle, 4.", "A circle, 3."]
    finally:
        go_on.set()
    last = client.get(f"{url}&offset=3").json()
    assert (last["total"], last["exact"]) == (5, True)
    assert [row["answer"] for row in last["rows"]] == ["A circle, 1.", "A circle, 0."]


@pytest.mark.parametrize("query", ["sort=id;DROP", "limit=many", "search=" + "x" * 201, "unknown=1", "status=odd"])
def test_a_query_that_the_page_never_sends(open_console: Open, tmp_path: Path, query: str) -> None:
    answer = open_console(tmp_path).get(f"/api/views/folder/rows?{query}")
    assert answer.status_code == 400
    assert answer.json()["message"]


def test_an_item_shows_the_details_of_its_answer(open_console: Open, tmp_path: Path, clip: Path) -> None:
    (tmp_path / "clip.mp4").write_bytes(clip.read_bytes())
    data = [
        {"label": "circle", "bbox_2d": [100, 200, 300, 400], "time": "00:01.50"},
        {"start": 0.5, "end": 2, "caption": "It moves"},
    ]
    write_answer(tmp_path / "a.json", data=data, reasoning="I think.", frameTimes=[0.0, 1.0], notes=["Thinned."])
    detail = open_console(tmp_path).get("/api/views/folder/items/1").json()
    assert detail["path"] == "a.json"
    assert detail["boxes"] == [
        {"left": 0.1, "top": 0.2, "right": 0.3, "bottom": 0.4, "label": "circle", "span": {"start": 1.5, "end": 1.5}}
    ]
    assert detail["events"] == [{"span": {"start": 0.5, "end": 2.0}, "caption": "It moves"}]
    assert detail["frameTimes"] == [0.0, 1.0] and detail["frameSheet"]["count"] == 2
    (media,) = detail["media"]
    assert (media["width"], media["height"], media["codec"], media["seconds"]) == (320, 240, "H.264", 4.0)
    assert media["url"] == "/api/views/folder/items/1/media/0" and media["previewReason"] is None
    assert detail["document"]["reasoning"] == "I think."


def test_a_player_seeks_by_ranges(open_console: Open, tmp_path: Path, clip: Path) -> None:
    (tmp_path / "clip.mp4").write_bytes(clip.read_bytes())
    write_answer(tmp_path / "a.json")
    client = open_console(tmp_path)
    whole = client.get("/api/views/folder/items/1/media/0")
    assert whole.status_code == 200 and whole.content == clip.read_bytes()
    assert whole.headers["content-type"] == "video/mp4" and whole.headers["accept-ranges"] == "bytes"
    part = client.get("/api/views/folder/items/1/media/0", headers={"range": "bytes=100-199"})
    assert part.status_code == 206 and part.content == clip.read_bytes()[100:200]
    assert part.headers["content-range"] == f"bytes 100-199/{clip.stat().st_size}"
    assert client.get("/api/views/folder/items/1/media/0", headers={"range": "bytes=99999999-"}).status_code == 416


def test_a_large_file_is_not_read_for_a_range_of_it(open_console: Open, tmp_path: Path, clip: Path) -> None:
    """Two gigabytes, of which the disk holds only the first few: reading them all would take this test's time."""
    large = tmp_path / "clip.mp4"
    large.write_bytes(clip.read_bytes())
    os.truncate(large, 2 * 1024**3)
    write_answer(tmp_path / "a.json")
    part = open_console(tmp_path).get(
        "/api/views/folder/items/1/media/0", headers={"range": "bytes=2000000000-2000000009"}
    )
    assert part.status_code == 206 and part.content == bytes(10)


def test_posters_and_the_sheet_of_frames_are_served(open_console: Open, tmp_path: Path) -> None:
    media_files.video(tmp_path / "clip.mp4", rotation=90)
    media_files.image(tmp_path / "red.png", 400, 100)
    write_answer(tmp_path / "a.json", frameTimes=[0.0, 2.0, 3.9], moreInputs=[{"inputFile": "red.png"}])
    client = open_console(tmp_path)

    def picture(path: str) -> Image.Image:
        answer = client.get(path)
        assert answer.headers["content-type"] == "image/jpeg", answer.text
        return Image.open(io.BytesIO(answer.content))

    assert picture("/api/views/folder/items/1/media/0/poster").size == (128, 160)
    assert picture("/api/views/folder/items/1/media/1/poster").size == (320, 80)
    sheet = picture("/api/views/folder/items/1/frames").convert("L")
    width = sheet.width // 3
    levels = [sheet.getpixel((number * width + width // 2, sheet.height // 2)) for number in range(3)]
    expected = [media_files.grey_at(frame, 40) for frame in (0, 20, 39)]
    assert all(abs(level - grey) < 6 for level, grey in zip(levels, expected, strict=True)), (levels, expected)


@pytest.mark.parametrize("url", ["media/0", "media/0/poster"])
def test_the_browser_asks_each_time_whether_it_has_the_right_file(
    open_console: Open, tmp_path: Path, clip: Path, url: str
) -> None:
    """At a fixed port, the same URL is that of another file once another folder is opened."""
    (tmp_path / "clip.mp4").write_bytes(clip.read_bytes())
    write_answer(tmp_path / "a.json")
    client, url = open_console(tmp_path), f"/api/views/folder/items/1/{url}"
    first = client.get(url)
    assert first.headers["cache-control"] == "private, no-cache"
    again = client.get(url, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(url, headers={"if-none-match": '"of another folder"'}).content == first.content


def test_a_damaged_file_has_no_poster_and_says_why(open_console: Open, tmp_path: Path) -> None:
    (tmp_path / "clip.mp4").write_bytes(b"\0\0\0\x18ftypmp42" + bytes(100))
    write_answer(tmp_path / "a.json")
    client = open_console(tmp_path)
    assert client.get("/api/views/folder/items/1").json()["media"][0]["problem"]
    for _ in range(2):
        answer = client.get("/api/views/folder/items/1/media/0/poster")
        assert answer.status_code == 422 and "truncated or damaged" in answer.json()["message"]


def test_an_image_of_too_many_pixels_is_never_decoded(open_console: Open, tmp_path: Path) -> None:
    """A PNG of 900 million pixels can be a file of 3 MB, and takes 10 GB of memory."""
    media_files.wide_png(tmp_path)
    write_answer(tmp_path / "a.json", inputFile="wide.png")
    client = open_console(tmp_path)
    assert "20,000 x 10" in client.get("/api/views/folder/items/1").json()["media"][0]["problem"]
    answer = client.get("/api/views/folder/items/1/media/0/poster")
    assert answer.status_code == 422 and "20,000 x 10" in answer.json()["message"]


def test_only_documents_of_an_opened_file(open_console: Open, tmp_path: Path, clip: Path) -> None:
    (tmp_path / "clip.mp4").write_bytes(clip.read_bytes())
    document = write_answer(tmp_path / "a.json", userPrompt="first")
    write_answer(tmp_path / "b.json", userPrompt="second")
    write_answer(tmp_path / "c.json", inputFile="other.mp4")
    (one,) = rows(open_console(document))
    assert one["prompt"] == "first" and one["poster"]
    assert {row["prompt"] for row in rows(open_console(tmp_path / "clip.mp4"))} == {"first", "second"}


def test_documents_that_are_gone(open_console: Open, tmp_path: Path) -> None:
    document = write_answer(tmp_path / "a.json")
    client = open_console(tmp_path)
    document.unlink()
    assert client.get("/api/views/folder/items/1").status_code == 404
    assert client.get("/api/views/folder/items/2").status_code == 404
    assert client.get("/api/views/folder/items/99999999999999999999").status_code == 404
    assert client.get("/api/views/folder/items/1/media/7").status_code == 404
    assert client.get("/api/views/folder/items/1/frames").status_code == 404


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"result": ' + b"[" * 100_000,
        b'{"result": "\\ud800", "model": "", "inputFile": "", "timestamp": "", "userPrompt": ""}',
        json.dumps({"generation": {}, "files": [{"file": "a", "role": "odd"}]}).encode(),
        b'{"error": {"code": "InvalidInput"}}',
        b'{"result": NaN}',
        b"\xff\xfe",
        b"",
    ],
)
def test_json_that_is_no_document_is_passed_over(open_console: Open, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd.json").write_bytes(content)
    write_answer(tmp_path / "z.json")
    assert len(rows(open_console(tmp_path))) == 1


def test_a_defect_is_answered_as_json_with_what_to_do(
    open_console: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise KeyError("a defect")

    write_answer(tmp_path / "a.json")
    client = open_console(tmp_path)
    monkeypatch.setattr(Scan, "state", fail)
    with pytest.raises(KeyError, match="a defect"):
        client.get("/api/views/folder/state")  # the server gets it too, and prints it
    client = TestClient(client.app, URL, raise_server_exceptions=False, cookies=client.cookies)
    answer = client.get("/api/views/folder/state")
    assert answer.status_code == 500 and answer.headers["cache-control"] == "no-store"
    message = answer.json()["message"]
    assert "KeyError: 'a defect'" in message and "Try again." in message


@pytest.mark.parametrize("field", ["score", "start", "point_2d"])
def test_a_number_that_no_float_can_hold_hides_no_document(open_console: Open, tmp_path: Path, field: str) -> None:
    number = 10**400
    value = [number, number] if field == "point_2d" else number
    write_answer(tmp_path / "a.json", data={field: value})
    write_answer(tmp_path / "b.json")
    client = open_console(tmp_path)
    assert len(rows(client)) == 2 and client.get("/api/views/folder/state").json()["problem"] is None
    assert [row["score"] for row in rows(client)] == [None, None]


def test_the_page_is_small(open_console: Open, tmp_path: Path) -> None:
    client = open_console(tmp_path)
    size = sum(len(gzip.compress(client.get(path).content)) for path in ("/", "/app.js", "/app.css"))
    assert size <= 600_000
