"""A small Hugging Face Hub: the endpoints that `huggingface_hub` calls for a download, with faults that tests can set.

with Hub() as hub:
    hub.add("nvidia/Cosmos-Reason2-2B", folder)
    subprocess.run(..., env=os.environ | {"HF_ENDPOINT": hub.url})
    assert hub.downloads["nvidia/Cosmos-Reason2-2B/config.json"] == 1
"""

import hashlib
import json
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import pytest

ACCOUNT = "tester"
_API = re.compile(r"/api/models/(?P<model>[^/]+/[^/]+)(?:/(?P<kind>revision|tree)/(?P<revision>[^/]+))?")
_FILE = re.compile(r"/(?P<model>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<name>.+)")
_CHUNK = 16 * 1024


@dataclass
class _Repository:
    main: str = ""
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def at(self, revision: str) -> tuple[str, dict[str, bytes]]:
        """Return the commit of a branch, tag or commit, and its files; no files if there is no such revision."""
        commit = self.main if revision == "main" else self.tags.get(revision, revision)
        return commit, self.commits.get(commit, {})


@dataclass
class Hub:
    """A hub on a free port of this machine, which runs inside `with`.

    Attributes:
        downloads: How often each file (`org/name/file`) was asked for from its first byte.
        requests: Number of requests of any kind.
        tokens: Tokens that are valid; None accepts every one, and none.
        gated: Models with a licence: listed to all, files refused (401 without a token, else 403).
        accepted: Tokens of those who have accepted all licences.
        pending: Tokens of those whose requests for access nobody has decided yet.
        status: If set, every request is answered with it (503: the hub is down).
        reason: The message of these answers.
        chunk_delay: Seconds to wait before each 16 KiB of a file.
        breaks: How many more times a file's connection is cut in the middle.
    """

    downloads: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    tokens: set[str] | None = None
    gated: set[str] = field(default_factory=set)
    accepted: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    status: int | None = None
    reason: str = "the hub is down"
    chunk_delay: float = 0.0
    breaks: int = 0
    repositories: dict[str, _Repository] = field(default_factory=dict)

    def add(self, model: str, folder: Path) -> str:
        """Commit the files of `folder` to `main` of `model` and return the commit. Older commits are kept."""
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        commit = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        repository = self.repositories.setdefault(model, _Repository())
        repository.commits[commit] = files
        repository.main = commit
        return commit

    @property
    def url(self) -> str:
        """Return the URL of the hub, which is the value for HF_ENDPOINT."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def direct_this_process(self, monkeypatch: "pytest.MonkeyPatch", folder: Path) -> None:
        """Make this process's `huggingface_hub` use this hub, without a token or a cache of this machine."""
        from huggingface_hub import constants

        monkeypatch.setattr(constants, "ENDPOINT", self.url)
        template = self.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(folder / "no-token"))
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / "no-cache"))
        monkeypatch.delenv("HF_TOKEN", raising=False)

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing; tests read the counters."""

    def _answer(self) -> None:
        self.hub.requests += 1
        path = unquote(urlsplit(self.path).path)
        token = self.headers.get("Authorization", "").removeprefix("Bearer ") or None
        if self.hub.status:
            self._refuse(self.hub.status, "Unavailable", self.hub.reason)
        elif token and self.hub.tokens is not None and token not in self.hub.tokens:
            self._refuse(401, None, "Invalid credentials in Authorization header")
        elif path == "/api/whoami-v2":
            self._json({"name": ACCOUNT, "type": "user"})
        elif match := _API.fullmatch(path):
            self._describe(**match.groupdict())
        elif match := _FILE.fullmatch(path):
            self._serve(token, **match.groupdict())
        else:
            self._refuse(404, None, "no such page")

    def _describe(self, model: str, kind: str | None, revision: str | None) -> None:
        if model not in self.hub.repositories:
            self._refuse(401, "RepoNotFound", "Repository not found")
            return
        commit, files = self.hub.repositories[model].at(revision or "main")
        if not files:
            self._refuse(404, "RevisionNotFound", "Invalid rev id")
        elif kind == "tree":
            self._json([_tree_entry(name, body) for name, body in files.items()])
        else:
            siblings = [_sibling(name, body) for name, body in files.items()]
            self._json({"id": model, "modelId": model, "sha": commit, "siblings": siblings})

    def _serve(self, token: str | None, model: str, revision: str, name: str) -> None:
        if model not in self.hub.repositories:
            self._refuse(401, "RepoNotFound", "Repository not found")
            return
        commit, files = self.hub.repositories[model].at(revision)
        if model in self.hub.gated and token not in self.hub.accepted:
            pending = token in self.hub.pending
            reason = "Your request to access it is awaiting a review" if pending else "You are not in the list"
            self._refuse(403 if token else 401, "GatedRepo", f"Access to model {model} is restricted. {reason}.")
        elif name not in files:
            self._refuse(404, "EntryNotFound", "Entry not found")
        else:
            self._send_file(f"{model}/{name}", commit, files[name])

    def _send_file(self, key: str, commit: str, body: bytes) -> None:
        first = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
        self.send_response(HTTPStatus.PARTIAL_CONTENT if first else HTTPStatus.OK)
        self.send_header("X-Repo-Commit", commit)
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(body) - first))
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
        self.end_headers()
        if self.command == "GET":
            self.hub.downloads[key] += first == 0
            self._send_body(body[first:])

    def _send_body(self, body: bytes) -> None:
        broken = self.hub.breaks > 0 and len(body) > _CHUNK
        self.hub.breaks -= broken
        try:
            for start in range(0, len(body) // 2 if broken else len(body), _CHUNK):
                time.sleep(self.hub.chunk_delay)
                self.wfile.write(body[start : start + _CHUNK])
        except (BrokenPipeError, ConnectionResetError):
            # The client was killed.
            broken = True
        self.close_connection = self.close_connection or broken

    def _json(self, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _refuse(self, status: int, code: str | None, message: str) -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", message)
        self.send_header("Content-Length", "0")
        self.end_headers()


def _is_large(name: str) -> bool:
    return name.endswith(".safetensors")


def _sibling(name: str, body: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(body).hexdigest()
    lfs = {"lfs": {"sha256": digest, "size": len(body), "pointerSize": 134}} if _is_large(name) else {}
    return {"rfilename": name, "size": len(body), "blobId": digest[:40], **lfs}


def _tree_entry(name: str, body: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(body).hexdigest()
    lfs = {"lfs": {"oid": digest, "size": len(body), "pointerSize": 134}} if _is_large(name) else {}
    return {"type": "file", "path": name, "size": len(body), "oid": digest[:40], **lfs}
