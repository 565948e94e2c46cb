"""The console answers its own page alone, and its answers say what the browser may do with them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from cosmos_batch.console.application import make_application
from cosmos_batch.console.console import Console
from cosmos_batch.console.guard import Session
from cosmos_batch.console.scope import Scope
from cosmos_batch.console.server import LOOPBACK, listening, open_browser, url_of
from cosmos_batch.contract.error import Failure
from tests.console.conftest import PORT, URL, Open
from tests.support.console_documents import write_answer


@pytest.fixture
def session() -> Session:
    return Session(PORT)


@pytest.fixture
def stranger(tmp_path: Path, session: Session) -> Iterator[TestClient]:
    """Provide a client that knows the port and not the token."""
    write_answer(tmp_path / "a.json")
    with Console.of_folder(Scope.of(tmp_path)) as console:
        yield TestClient(make_application(console, session), base_url=URL)


@pytest.mark.parametrize(
    "path",
    [
        "/api/views/folder/state",
        "/api/views/folder/rows",
        "/api/views/folder/items/1",
        "/api/views/folder/items/1/media/0",
        "/api/nothing",
    ],
)
def test_without_the_cookie_nothing_is_answered(stranger: TestClient, path: str) -> None:
    assert stranger.get(path).status_code == 401
    assert stranger.get(path, headers={"cookie": f"cosmos-batch-{PORT}=guessed"}).status_code == 401
    assert stranger.get(path, headers={"cookie": '"\x01; ='}).status_code == 401


@pytest.mark.parametrize("body", ['{"token": "wrong"}', '{"token": 1}', "[]", "no JSON", "", '{"token": "\\ud800"}'])
def test_a_wrong_token_gets_no_cookie(stranger: TestClient, body: str) -> None:
    answer = stranger.post("/api/session", content=body)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_the_token_gets_a_cookie_that_scripts_and_other_sites_never_see(stranger: TestClient, session: Session) -> None:
    answer = stranger.post("/api/session", json={"token": session.token})
    assert answer.status_code == 204
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and session.token.lower() not in cookie
    assert stranger.get("/api/views/folder/state").status_code == 200


def test_a_long_body_is_not_read(stranger: TestClient) -> None:
    assert stranger.post("/api/session", content="x" * 2000).status_code == 403
    assert stranger.post("/api/session", content=iter([b" " * 1000] * 9)).status_code == 403


@pytest.mark.parametrize("host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", ""])
def test_another_host_name_is_refused(stranger: TestClient, session: Session, host: str) -> None:
    """A site may give its own name the address of this machine (DNS rebinding)."""
    for path in ("/", "/api/views/folder/state"):
        assert stranger.get(path, headers={"host": host}).status_code == 403
    assert stranger.post("/api/session", json={"token": session.token}, headers={"host": host}).status_code == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", f"https://127.0.0.1:{PORT}"])
def test_another_origin_is_refused_and_told_nothing(open_console: Open, tmp_path: Path, origin: str) -> None:
    client = open_console(tmp_path)
    for answer in (
        client.get("/api/views/folder/state", headers={"origin": origin}),
        client.options("/api/views/folder/state", headers={"origin": origin, "access-control-request-method": "GET"}),
        client.post("/api/session", json={}, headers={"origin": origin}),
    ):
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_may_not_embed_anything(open_console: Open, tmp_path: Path, site: str) -> None:
    client = open_console(tmp_path)
    assert client.get("/api/views/folder/state", headers={"sec-fetch-site": site}).status_code == 403
    assert client.get("/api/views/folder/state", headers={"sec-fetch-site": "same-origin"}).status_code == 200


def test_no_answer_allows_other_origins(open_console: Open, tmp_path: Path) -> None:
    answer = open_console(tmp_path).get("/api/views/folder/state", headers={"origin": URL})
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/", "/app.js", "/app.css", "/api/views/folder/state", "/nothing"])
def test_each_answer_has_headers_that_forbid_other_sites(open_console: Open, tmp_path: Path, path: str) -> None:
    headers = open_console(tmp_path).get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "POST"])
def test_methods_that_would_change_something_are_not_allowed(open_console: Open, tmp_path: Path, method: str) -> None:
    client = open_console(tmp_path)
    assert client.request(method, "/api/views/folder/state", headers={"origin": URL}).status_code == 405


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example"])
def test_requests_that_change_something_must_come_from_the_page(
    open_console: Open, tmp_path: Path, origin: str | None
) -> None:
    """Browsers name the origin of each request that is not a GET; a form of another site cannot leave it out."""
    write_answer(tmp_path / "a.json")
    client, body = open_console(tmp_path), {"selection": {"items": [1]}, "media": False}
    headers = {"origin": origin} if origin else {}
    assert client.post("/api/views/folder/exports", json=body, headers=headers).status_code == 403
    assert client.post("/api/views/folder/exports", json=body, headers={"origin": URL}).status_code == 200


def test_it_listens_on_the_loopback_interface_alone(session: Session) -> None:
    with listening(0) as server:
        address, port = server.getsockname()
        assert address == LOOPBACK == "127.0.0.1"
        assert url_of(server, session) == f"http://127.0.0.1:{port}/#token={session.token}"
        with pytest.raises(Failure, match="Name another --port"), listening(port):
            pass


def test_the_browser_is_not_given_the_token_where_other_users_see_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    open_browser(f"{URL}/#token=secret", tmp_path)
    page = tmp_path / "open.html"
    assert opened == [page.as_uri()]
    assert page.stat().st_mode & 0o077 == 0
    assert "#token=secret" in page.read_text()
