"""A file is fetched from a public https server within bounds of size and time, and nothing else is ever reached."""

import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.web_download import WebDownload, WebVersion, is_public

HOST, CONTENT = "media.example.com", b"a clip" * 1000


class Handler(BaseHTTPRequestHandler):
    """Answers as the path says."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.requests.append(self.path)  # type: ignore[attr-defined]
        answers: dict[str, Callable[[], None]] = {
            "/redirect.mp4": lambda: self._answer(302, b"", Location=f"https://{HOST}/clip.mp4"),
            "/none.mp4": lambda: self._answer(404, b"secret"),
            "/short.mp4": lambda: self._answer(200, CONTENT, **{"Content-Length": str(len(CONTENT) + 1)}),
            "/length.mp4": lambda: self._answer(200, CONTENT, **{"Content-Length": "secret"}),
            "/status.mp4": lambda: self._raw(b"secret\r\n"),
            "/chunks.mp4": lambda: self._raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nsecret\r\n"),
            "/drip.mp4": self._drip,
            "/endless.mp4": self._endless,
            "/versioned.mp4": self._versioned,
        }
        answers.get(self.path, lambda: self._answer(200, CONTENT))()

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def _raw(self, answer: bytes) -> None:
        self.wfile.write(answer)
        self.close_connection = True

    def _versioned(self) -> None:
        """Answer with a file of the version `"2"`, unless that is known."""
        is_known = self.headers["If-None-Match"] == '"2"'
        self._answer(*((304, b"") if is_known else (200, CONTENT)), ETag='"2"')

    def _drip(self) -> None:
        """Send the status line and no more, until the client has gone."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        self.wfile.flush()
        self.rfile.read(1)
        self.close_connection = True

    def _endless(self) -> None:
        """Send chunks until the client has gone, without saying how many there are."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                self.wfile.write(b"1000\r\n" + b"x" * 0x1000 + b"\r\n")
        except OSError:
            self.close_connection = True


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a key and a certificate of the host, which signs itself."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def server(certificate: Path) -> Iterator[ThreadingHTTPServer]:
    """Provide an https server on this machine, which records the paths that it is asked for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        served.requests = []  # type: ignore[attr-defined]
        served.daemon_threads = True
        served.socket = context.wrap_socket(served.socket, server_side=True)
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield served
        served.shutdown()


@pytest.fixture
def download(server: ThreadingHTTPServer, certificate: Path) -> WebDownload:
    """Provide a download for which the host is this server, whose address counts as public."""
    return WebDownload(
        resolver=lambda *_: ["127.0.0.1"],
        may_connect=lambda address: address == "127.0.0.1",
        port=server.server_port,
        context=ssl.create_default_context(cafile=str(certificate)),
    )


def requests(server: ThreadingHTTPServer) -> list[str]:
    return list(server.requests)  # type: ignore[attr-defined]


def test_a_file_is_fetched_with_its_query(download: WebDownload, server: ThreadingHTTPServer, tmp_path: Path) -> None:
    download.fetch(f"https://{HOST}/a/clip.mp4?key=1&b=%20", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert requests(server) == ["/a/clip.mp4?key=1&b=%20"]


def test_a_file_that_has_the_known_version_is_not_fetched_again(download: WebDownload, tmp_path: Path) -> None:
    address, path = f"https://{HOST}/versioned.mp4", tmp_path / "file"
    assert download.fetch(address, path, WebVersion(etag='"2"')) is None and not path.exists()
    assert download.fetch(address, path, WebVersion(etag='"1"')) == WebVersion(etag='"2"')
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("redirect", "redirects (302)"),
        ("none", "answered 404"),
        ("short", "cannot be fetched"),
        ("length", "its host did not answer with valid HTTP"),
        ("status", "its host did not answer with valid HTTP"),
        ("chunks", "its host did not answer with valid HTTP"),
    ],
)
def test_an_answer_that_is_no_whole_file_is_refused_without_quoting_it(
    path: str, message: str, download: WebDownload, server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    with pytest.raises(CliError) as error:
        download.fetch(f"https://{HOST}/{path}.mp4", tmp_path / "file")
    assert message in error.value.message and "secret" not in error.value.message
    assert requests(server) == [f"/{path}.mp4"], "nothing else was asked for"


@pytest.mark.parametrize("path", ["clip", "endless"])
def test_a_file_that_is_too_large_is_not_read_to_its_end(path: str, download: WebDownload, tmp_path: Path) -> None:
    with pytest.raises(CliError, match="more than 1,000 bytes"):
        replace(download, size_limit=1000).fetch(f"https://{HOST}/{path}.mp4", tmp_path / "file")
    written = tmp_path / "file"
    assert not written.exists() or written.stat().st_size < 1_000_000


@pytest.mark.parametrize("path", ["drip", "endless"])
def test_a_server_that_never_ends_is_left(path: str, download: WebDownload, tmp_path: Path) -> None:
    with pytest.raises(CliError, match=r"took more than|timed out"):
        replace(download, seconds=0.5).fetch(f"https://{HOST}/{path}.mp4", tmp_path / "file")


def test_a_download_stops_when_it_is_given_up(download: WebDownload, tmp_path: Path) -> None:
    download.given_up.set()
    with pytest.raises(CliError, match="it was given up"):
        download.fetch(f"https://{HOST}/endless.mp4", tmp_path / "file")


def test_a_server_without_the_certificate_of_the_host_is_refused(
    download: WebDownload, server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    for other in (download, replace(download, context=ssl.create_default_context())):
        with pytest.raises(CliError, match="CERTIFICATE_VERIFY_FAILED"):
            name = "other.example.com" if other is download else HOST
            other.fetch(f"https://{name}/clip.mp4", tmp_path / "file")
    assert requests(server) == []


PRIVATE = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
    "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "ff02::1", "::ffff:10.0.0.1",
    "::ffff:169.254.169.254", "64:ff9b::a00:1", "2002:0a00:0001::1", "2001:0:1::1",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_no_address_of_a_network_is_reached(address: str, download: WebDownload, tmp_path: Path) -> None:
    assert not is_public(address)
    for addresses in ([address], ["8.8.8.8", address]):
        closed = replace(download, resolver=lambda *_, found=addresses: found, may_connect=is_public)
        with pytest.raises(CliError, match="an address that is not public"):
            closed.fetch(f"https://{HOST}/clip.mp4", tmp_path / "file")


def test_a_host_without_an_address_is_refused(download: WebDownload, tmp_path: Path) -> None:
    with pytest.raises(CliError, match="its host has no address"):
        replace(download, resolver=lambda *_: []).fetch(f"https://{HOST}/clip.mp4", tmp_path / "file")


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8"])
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(address) and ip_address(address)


def test_a_name_is_resolved_once_and_what_was_checked_is_connected_to(download: WebDownload, tmp_path: Path) -> None:
    """A second answer of the resolver, which leads elsewhere, is never asked for."""
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])
    replace(download, resolver=lambda *_: next(answers)).fetch(f"https://{HOST}/clip.mp4", tmp_path / "file")
    assert next(answers) == ["169.254.169.254"]


def test_a_proxy_of_the_environment_is_not_used(
    download: WebDownload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy would resolve the name itself."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    download.fetch(f"https://{HOST}/clip.mp4", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
