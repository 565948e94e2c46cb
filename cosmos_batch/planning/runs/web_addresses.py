"""Inputs of manifests at `https://` addresses: which ones may be fetched, and where in S3 their copies lie."""

import hashlib
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from cosmos_batch.contract.s3 import UPLOAD_FOLDER
from cosmos_batch.planning.runs.line_problems import FieldProblem, WrongLine

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_NAME = re.compile(r"[\w.-]{1,200}", re.ASCII)
_COPY_IT = "Copy the file into one of the configured buckets (`aws s3 cp`), and name it as s3://bucket/key."


@dataclass(frozen=True)
class WebAddresses:
    """The hosts that the configuration allows, and the bucket (or `bucket/prefix/`) that takes the copies.

    `note` is called with each address and the URI of its copy, because the copies are made when the run starts.
    """

    hosts: Collection[str] = ()
    root: str = ""
    note: Callable[[str, str], None] = lambda _address, _uri: None

    def copied(self, field: str, name: str) -> str:
        """Return an S3 URI as it is, and for an address the URI of its copy. Raises WrongLine."""
        if not _SCHEME.match(name) or name.startswith("s3://"):
            return name
        problem = self._refused(field, name)
        if problem is not None:
            raise WrongLine([problem])
        uri = self._place(name)
        self.note(name, uri)
        return uri

    @property
    def folder(self) -> str:
        """Return the prefix of all copies."""
        bucket, _, prefix = self.root.partition("/")
        return f"s3://{bucket}/{prefix}{UPLOAD_FOLDER}/web/"

    def _place(self, address: str) -> str:
        """Return where the copy of an address lies: always at the same place, so that it is fetched once."""
        name = unquote(urlsplit(address).path).rpartition("/")[2]
        if not _NAME.fullmatch(name):
            name = f"file.{name.rpartition('.')[2]}"
        return f"{self.folder}{hashlib.sha256(address.encode()).hexdigest()[:32]}/{name}"

    def _refused(self, field: str, address: str) -> FieldProblem | None:
        """Return why an address is not fetched; None if it is.

        The reason does not quote it: a data URL may be a whole video.
        """
        scheme = address.partition(":")[0][:20]
        if scheme.lower() != "https":
            return FieldProblem(
                field, f"is an address of {scheme!r}; media are read from S3 and https alone.", _COPY_IT
            )
        parts = _split(address)
        if parts is None:
            return FieldProblem(field, "is no valid https address, or has a user, a port or a space.", "Correct it.")
        if parts.hostname not in self.hosts:
            remedy = "Add it to storage.inputHosts and deploy, if all that it serves may be fetched. Or: " + _COPY_IT
            return FieldProblem(field, f"names the host {str(parts.hostname)[:80]}, which is not configured.", remedy)
        return None


def _split(address: str) -> SplitResult | None:
    """Return the parts of an address; None for one with a user, another port, or characters that a URL cannot have."""
    if not re.fullmatch(r"[!-~]{1,4096}", address) or "\\" in address:
        return None
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return None
    return None if parts.username is not None or port not in (None, 443) or not parts.hostname else parts
