"""Fetch one file from an https address that a manifest names, and reach nothing but public servers by it.

A name may be made to lead to an address of this machine's network, or to another one each time that it is resolved. So
it is resolved once, every address that it has must be public, and the connection goes to one of these (decision 075).
"""

import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.client import NOT_MODIFIED, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from cosmos_batch.catalogue.limits import INPUT_SIZE_LIMIT
from cosmos_batch.cli.errors import CliError

CONNECT_SECONDS, FILE_SECONDS = 10.0, 1800.0
_CHUNK = 256 * 1024
# Addresses of IPv6 that stand for one of IPv4, which is not looked at: NAT64, 6to4 and Teredo.
_TRANSLATED = [IPv6Network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")]


def is_public(address: str) -> bool:
    """Return whether an address is one of the internet, and none of a machine, a network or a cloud's metadata."""
    ip = ip_address(address)
    if isinstance(ip, IPv6Address):
        if any(ip in network for network in _TRANSLATED):
            return False
        ip = ip.ipv4_mapped or ip
    return ip.is_global and not ip.is_multicast


def resolve(host: str, port: int) -> list[str]:
    """Return all addresses of a host."""
    return list(dict.fromkeys(str(row[4][0]) for row in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))


class WebVersion(NamedTuple):
    """The headers that name a version of a file. A request that sends them back asks whether the file has changed."""

    etag: str = ""
    changed: str = ""

    @classmethod
    def of(cls, response: HTTPResponse) -> Self:
        """Return the version in an answer, without values that a header or the metadata of S3 could not hold."""
        headers = (response.headers.get(name, "") for name in ("ETag", "Last-Modified"))
        return cls(*(text if re.fullmatch(r"[ -~]{1,256}", text) else "" for text in headers))

    @property
    def condition(self) -> dict[str, str]:
        """Return the headers of a request that is answered with the file only if the file has changed."""
        headers = {"If-None-Match": self.etag, "If-Modified-Since": self.changed}
        return {name: value for name, value in headers.items() if value}


UNKNOWN = WebVersion()


@dataclass(frozen=True)
class WebDownload:
    """How files are fetched. Tests replace the resolver, the rule for addresses, the port and the limits.

    Once `given_up` is set, what is being fetched ends at the next piece that comes.
    """

    resolver: Callable[[str, int], Sequence[str]] = resolve
    may_connect: Callable[[str], bool] = is_public
    port: int = 443
    context: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    size_limit: int = INPUT_SIZE_LIMIT
    seconds: float = FILE_SECONDS
    given_up: threading.Event = field(default_factory=threading.Event)

    def fetch(self, address: str, path: Path, known: WebVersion = UNKNOWN) -> WebVersion | None:
        """Write what an https address answers to a file, and return its version.

        Nothing is written, and None is returned, where the file still has the known version. Raises CliError, whose
        message has nothing of what the host sent but the status code.
        """
        parts = urlsplit(address)
        host, target = str(parts.hostname), f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        expired = threading.Event()
        try:
            connection = self._connect(host)
            watchdog = threading.Timer(self.seconds, _stop, (connection, expired))
            watchdog.daemon = True
            watchdog.start()
            try:
                headers = {"Accept-Encoding": "identity", "User-Agent": "cosmos-batch", **known.condition}
                connection.request("GET", target, headers=headers)
                response = connection.getresponse()
                if response.status == NOT_MODIFIED and known.condition:
                    return None
                self._write(response, path)
                return WebVersion.of(response)
            finally:
                watchdog.cancel()
                connection.close()
        except (OSError, HTTPException, ValueError) as error:
            reason = f"it took more than {self.seconds:.0f} s" if expired.is_set() else _reason(error)
            raise CliError(f"{address} cannot be fetched: {reason}.", "Try again, or copy it to S3.") from error

    def _connect(self, host: str) -> HTTPSConnection:
        """Return a connection to an address of the host that was checked. Raises OSError."""
        addresses = self.resolver(host, self.port)
        if not addresses:
            raise OSError("its host has no address")
        if not all(map(self.may_connect, addresses)):
            raise OSError("its host has an address that is not public")
        failures = []
        for one in addresses:
            try:
                connection = HTTPSConnection(host, self.port, context=self.context)
                plain = socket.create_connection((one, self.port), min(CONNECT_SECONDS, self.seconds))
                connection.sock = self.context.wrap_socket(plain, server_hostname=host)
                return connection
            except OSError as error:
                failures.append(error)
        raise failures[-1]

    def _write(self, response: HTTPResponse, path: Path) -> None:
        if 300 <= response.status < 400:
            raise OSError(f"it redirects ({response.status}), which is not followed")
        if response.status != 200:
            raise OSError(f"its host answered {response.status}")
        length = int(response.headers.get("Content-Length") or 0)
        until, size = time.monotonic() + self.seconds, 0
        with path.open("wb") as file:
            while size <= self.size_limit and length <= self.size_limit and (chunk := response.read1(_CHUNK)):
                size += file.write(chunk)
                if self.given_up.is_set():
                    raise OSError("it was given up")
                if time.monotonic() > until:
                    raise OSError(f"it took more than {self.seconds:.0f} s")
        if max(size, length) > self.size_limit:
            raise OSError(f"it has more than {self.size_limit:,} bytes")
        if not size or (length and size != length):
            raise OSError(f"it ended after {size:,} bytes")


def _reason(error: Exception) -> str:
    """Return why a fetch failed. What `http.client` and `int` raise quotes what the host sent, which may be secret."""
    # RemoteDisconnected is an OSError too, but other errors of HTTP have the host's words.
    return f"{error}" if isinstance(error, OSError) else "its host did not answer with valid HTTP"


def _stop(connection: HTTPSConnection, expired: threading.Event) -> None:
    """Break a connection whose time is up, whatever it waits for."""
    expired.set()
    if connection.sock is not None:
        connection.sock.shutdown(socket.SHUT_RDWR)
