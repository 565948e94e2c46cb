"""Once AWS refuses the person's credentials, each view of the console says so, and how to sign in again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cosmos_batch.cli.console.prefix_collection import PrefixCollection
from cosmos_batch.cli.console.s3_media import S3MediaFinder
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.console.console import FOLDER, Console
from cosmos_batch.contract.s3 import S3Location
from tests.cli.commands.runs.conftest import put_row
from tests.cli.console.conftest import OpenRun, client_of
from tests.support import media_files
from tests.support.browser import read_view
from tests.support.console_documents import write_answer
from tests.support.run_objects import answered, put_run

REMEDY = "Sign in again, such as with aws sso login."

Expire = Callable[[], None]


@pytest.fixture
def expire(deployment: Deployment) -> Expire:
    """Provide a function after which S3 answers as it does to an expired token; to HEAD, it gives no reason."""

    def refuse(model: Any, **_: object) -> None:
        reason = {"Code": "ExpiredToken", "Message": "The provided token has expired."}
        if model.name == "HeadObject":
            reason = {"Code": "400", "Message": "Bad Request"}
        raise ClientError({"Error": reason}, model.name)

    return lambda: deployment.clients("s3").meta.events.register("before-call.s3", refuse)


@pytest.fixture
def clip(deployment: Deployment, tmp_path: Path) -> str:
    """Provide the key of a clip in S3."""
    deployment.clients("s3").upload_file(str(media_files.video(tmp_path / "clip.mp4")), "assets", "clips/clip.mp4")
    return "clips/clip.mp4"


def test_an_item_of_a_run_says_to_sign_in_again(
    open_run: OpenRun, deployment: Deployment, clip: str, expire: Expire
) -> None:
    put_run(deployment.clients("s3"), "run", [[answered(clip)]])
    put_row(deployment, "run", items=1)
    client = open_run("run")
    media = client.get("/api/views/run/items/1").json()["media"][0]["url"]
    expire()
    for url in ("/api/views/run/items/1", media, f"{media}/poster", "/api/views/other/state"):
        answer = client.get(url, headers={"range": "bytes=0-9"})
        assert answer.status_code == 409 and REMEDY in answer.json()["message"], url


def test_a_document_below_a_prefix_is_not_gone_because_credentials_have_expired(
    deployment: Deployment, clip: str, expire: Expire, tmp_path: Path
) -> None:
    s3 = deployment.clients("s3")
    s3.upload_file(str(write_answer(tmp_path / "answer.json")), "assets", "clips/answer.json")
    prefix = S3Location("assets", "clips/")
    with Console.of_collection(PrefixCollection(s3, prefix)) as console, client_of(console) as client:
        read_view(console, FOLDER)
        expire()
        answer = client.get("/api/views/folder/items/1")
        assert answer.status_code == 409 and REMEDY in answer.json()["message"]
    with Console.of_collection(PrefixCollection(s3, prefix)) as console:
        state = read_view(console, FOLDER).scan.state()
    assert state.documents == 0 and state.problem is not None and REMEDY in state.problem


def test_an_item_is_shown_without_a_file_that_s3_refuses(
    open_run: OpenRun, deployment: Deployment, clip: str, expire: Expire, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_run(deployment.clients("s3"), "run", [[answered(clip)]])
    client = open_run("run")
    look = S3MediaFinder._look

    def expired(finder: S3MediaFinder, location: S3Location) -> object:
        expire()
        return look(finder, location)

    monkeypatch.setattr(S3MediaFinder, "_look", expired)
    detail = client.get("/api/views/run/items/1").json()
    assert detail["answer"] and REMEDY in detail["media"][0]["problem"]
