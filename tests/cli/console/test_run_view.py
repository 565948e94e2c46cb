"""A run in the console: its items in the grid, their media in S3, and what is never served."""

import io
import json
from pathlib import Path

import pytest
from PIL import Image
from starlette.testclient import TestClient

from cosmos_batch.cli.console.s3_media import S3Media
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.contract.error import Error
from tests.cli.commands.runs.conftest import put_row
from tests.cli.console.conftest import OpenRun
from tests.support import media_files
from tests.support.run_objects import answered, failed, put_run

LATE = Error(code="TimedOut", message="It took too long.", remedy="Ask again.", retryable=True)


def rows(client: TestClient, run: str, **query: str | float) -> list[str]:
    answer = client.get(f"/api/views/{run}/rows", params=query)
    assert answer.status_code == 200, answer.text
    return [row["item"] for row in answer.json()["rows"]]


def test_failed_items_are_in_the_grid_with_their_code_and_remedy(open_run: OpenRun, half: str) -> None:
    client = open_run(half)
    found = {row["item"]: row for row in client.get(f"/api/views/{half}/rows").json()["rows"]}
    assert set(found) == {"a", "b", "c"}
    assert (found["b"]["errorCode"], found["b"]["remedy"]) == ("InvalidInput", "Upload it again.")
    assert (found["a"]["duration"], found["a"]["dollars"], found["a"]["answer"]) == (2.5, 0.001, "A car turns.")
    state = client.get(f"/api/views/{half}/state").json()
    assert (state["documents"], state["failed"], state["grows"]) == (3, 1, True)
    [kind] = state["failures"]
    assert (kind["code"], kind["count"], kind["remedy"]) == ("InvalidInput", 1, "Upload it again.")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"status": "failed", "sort": "oldest"}, ["late", "bad"]),
        ({"errorCode": "TimedOut"}, ["late"]),
        ({"minSeconds": 3.0}, ["slow"]),
        ({"maxSeconds": 3.0}, ["quick"]),
        ({"sort": "slowest", "status": "succeeded"}, ["slow", "quick"]),
        ({"sort": "dearest", "status": "succeeded"}, ["quick", "slow"]),
        ({"minScore": 0.5}, ["quick"]),
        ({"maxScore": 0.5}, ["slow"]),
        ({"search": "took too"}, ["late"]),
    ],
)
def test_items_are_filtered_and_sorted(
    open_run: OpenRun, deployment: Deployment, query: dict[str, str | float], found: list[str]
) -> None:
    lines = [
        answered("slow", seconds=9.0, dollars=0.001, data={"score": 0.2}),
        answered("quick", seconds=1.0, dollars=0.002, data=[{"label": "car", "confidence": 0.9}]),
        failed("late", LATE),
        failed("bad"),
    ]
    put_run(deployment.clients("s3"), "run", [lines])
    assert rows(open_run("run"), "run", **query) == found


def test_a_run_that_goes_on_shows_further_items_and_one_that_is_asked_again_its_new_answers(
    open_run: OpenRun, deployment: Deployment
) -> None:
    s3 = deployment.clients("s3")
    put_run(s3, "run", [[answered("a"), failed("b")], 1])
    client = open_run("run")
    before = client.get("/api/views/run/rows").json()["rows"]
    put_run(s3, "run", [[answered("a"), answered("b", answer="Now it is.")], [answered("c")]])
    state = {"documents": 0, "failed": 1}
    while state["documents"] < 3 or state["failed"]:
        state = client.get("/api/views/run/state").json()
    after = client.get("/api/views/run/rows").json()["rows"]
    assert {row["item"]: row["answer"] for row in after}["b"] == "Now it is."
    old = {row["id"] for row in before}
    assert not old & {row["id"] for row in after if row["item"] in ("b", "c")}, "an id never names another item"


@pytest.fixture
def with_media(open_run: OpenRun, deployment: Deployment, tmp_path: Path) -> TestClient:
    """Provide the console of a run with one answer about a clip, whose document is in S3, and one about a picture."""
    s3 = deployment.clients("s3")
    clip = media_files.video(tmp_path / "clip.mp4")
    s3.upload_file(str(clip), "assets", "clips/clip.mp4")
    s3.upload_file(str(media_files.image(tmp_path / "red.png", 400, 100)), "assets", "clips/red.png")
    document = {
        "model": "m", "inputFile": "clip.mp4", "timestamp": "20261120-120000", "userPrompt": "What?",
        "result": "It moves.", "frameTimes": [0.0, 2.0], "timings": {"decode": 0.5, "generate": 2.0},
        "inputUri": "s3://assets/clips/clip.mp4", "moreInputs": [
            {"inputFile": "red.png", "inputUri": "s3://assets/clips/red.png"},
            {"inputFile": "secret.png", "inputUri": "s3://state/secret.png"},
        ],
    }  # fmt: skip
    s3.put_object(Bucket="assets", Key="clips/clip_CosmosReason_20261120-120000.json", Body=json.dumps(document))
    s3.put_object(Bucket="state", Key="secret.png", Body=(tmp_path / "red.png").read_bytes())
    place = "s3://assets/clips/clip_CosmosReason_20261120-120000.json"
    lines = [
        answered("clips/clip.mp4", document=place),
        answered("elsewhere", input="s3://state/secret.png"),
        answered("odd", input="s3://assets/clips/clip_CosmosReason_20261120-120000.json"),
        answered("gone", input="s3://assets/gone.mp4"),
    ]
    put_run(s3, "run", [lines])
    put_row(deployment, "run", "SUCCEEDED", items=4)
    return open_run("run")


def test_an_item_shows_its_document_timings_and_cost_with_the_media_in_s3(with_media: TestClient) -> None:
    detail = with_media.get("/api/views/run/items/1").json()
    assert detail["timings"] == {"decode": 0.5, "generate": 2.0} and detail["frameTimes"] == [0.0, 2.0]
    assert (detail["dollars"], detail["gpuSeconds"], detail["document"]["userPrompt"]) == (0.001, 0.5, "What?")
    clip, picture, secret = detail["media"]
    assert (clip["width"], clip["codec"], clip["seconds"], picture["width"]) == (160, "H.264", 4.0, 400)
    assert not secret["present"], "it lies in a bucket that holds no files of people"
    poster = with_media.get(detail["media"][0]["poster"])
    assert Image.open(io.BytesIO(poster.content)).size == (160, 128)
    assert with_media.get(detail["media"][1]["url"]).headers["content-type"] == "image/png"
    assert with_media.get(detail["frameSheet"]["url"]).headers["content-type"] == "image/jpeg"


def test_a_player_seeks_in_s3_by_ranges(with_media: TestClient, deployment: Deployment) -> None:
    whole = deployment.clients("s3").get_object(Bucket="assets", Key="clips/clip.mp4")["Body"].read()
    url = "/api/views/run/items/1/media/0"

    def part(asked: str) -> tuple[int, bytes, str | None]:
        answer = with_media.get(url, headers={"range": asked})
        return answer.status_code, answer.content, answer.headers.get("content-range")

    assert with_media.get(url).content == whole
    assert part("bytes=100-199") == (206, whole[100:200], f"bytes 100-199/{len(whole)}")
    assert part("bytes=100-") == (206, whole[100:], f"bytes 100-{len(whole) - 1}/{len(whole)}")
    assert part("bytes=-10") == (206, whole[-10:], f"bytes {len(whole) - 10}-{len(whole) - 1}/{len(whole)}")
    assert part(f"bytes={len(whole)}-") == (416, b"", f"bytes */{len(whole)}")


def test_a_player_that_seeks_fetches_the_header_once(with_media: TestClient, deployment: Deployment) -> None:
    events, fetched = deployment.clients("s3").meta.events, list[str]()
    events.register("provide-client-params.s3.GetObject", lambda params, **_: fetched.append(params["Range"]))
    url = "/api/views/run/items/1/media/0"
    for start in (100, 200, 300):
        assert with_media.get(url, headers={"range": f"bytes={start}-{start + 9}"}).status_code == 206
    header = [span for span in fetched if span.startswith("bytes=0-")]
    assert [span for span in fetched if span not in header] == ["bytes=100-109", "bytes=200-209", "bytes=300-309"]
    assert len(header) == 1


@pytest.mark.parametrize("item", [2, 3, 4])
def test_what_is_no_media_or_lies_elsewhere_or_is_gone_is_not_served(with_media: TestClient, item: int) -> None:
    assert not with_media.get(f"/api/views/run/items/{item}").json()["media"][0]["present"]
    for what in ("", "/poster", "/preview"):
        assert with_media.get(f"/api/views/run/items/{item}/media/0{what}").status_code == 404


def test_of_a_large_file_in_s3_only_what_is_looked_at_is_fetched(
    with_media: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def whole(media: S3Media) -> None:
        raise AssertionError(f"{media.name} was fetched whole")

    monkeypatch.setattr(S3Media, "whole", whole)
    detail = with_media.get("/api/views/run/items/1").json()
    assert with_media.get(detail["media"][0]["poster"]).status_code == 200
    assert with_media.get(detail["media"][0]["url"], headers={"range": "bytes=0-9"}).status_code == 206


def test_names_that_are_no_runs(open_run: OpenRun, half: str) -> None:
    client = open_run(half)
    for name in ("none", "..", "%2e%2e", "folder", "a b"):
        assert client.get(f"/api/views/{name}/rows").status_code == 404
