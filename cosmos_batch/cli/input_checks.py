"""The file that a person names, looked at before anything is started or sent."""

import hashlib
import os
from pathlib import Path

from cosmos_batch.catalogue.formats import EXTENSIONS
from cosmos_batch.catalogue.limits import PROMPT_LIMIT
from cosmos_batch.catalogue.pipelines import DEFAULT_PROMPT
from cosmos_batch.cli.errors import CliError
from cosmos_batch.contract.s3 import extension, parse_uri


def checked(name: str) -> Path | str:
    """A file of this machine, or an S3 URI. Raises CliError."""
    return checked_uri(name) if name.startswith("s3://") else checked_input(name)


def checked_input(name: str, extensions: tuple[str, ...] = EXTENSIONS) -> Path:
    """The file as a path. Raises CliError where it can be seen from outside that no pipeline takes it."""
    path = Path(name).expanduser()
    if path.is_dir():
        raise CliError(f"{name} is a folder.", "Name one file in it; `cosmos-batch submit` takes several at once.")
    if not path.is_file():
        raise CliError(f"{name} does not exist.", f"Check the name; this command runs in {Path.cwd()}.")
    if extension(path.name) not in extensions:
        raise CliError(f"{name} is of a kind that no pipeline takes.", f"Allowed extensions: {', '.join(extensions)}")
    if not _is_text(path.name):
        raise CliError(f"{name!r} is not UTF-8, which names in S3 are.", "Rename the file.")
    if not os.access(path, os.R_OK):
        raise CliError(f"{name} cannot be read.", "Check its permissions.")
    if path.stat().st_size == 0:
        raise CliError(f"{name} is empty.", "Check that it was copied or downloaded completely.")
    return path


def checked_prompt(prompt: str | None) -> str:
    """The prompt, or the default one where it is blank. Raises CliError where it is too long."""
    text = prompt if prompt and prompt.strip() else DEFAULT_PROMPT
    if not _is_text(text):
        raise CliError("The prompt is not valid UTF-8.", "Check the terminal's encoding; it should be UTF-8.")
    size = len(text.encode())
    if size > PROMPT_LIMIT:
        raise CliError(f"The prompt has {size:,} bytes of UTF-8.", f"Shorten it to {PROMPT_LIMIT:,} bytes or less.")
    return text


def chosen_pipeline(name: str | None, enabled: list[str]) -> str:
    """A pipeline's id; the smallest enabled one where none is named. Raises CliError where it is not deployed."""
    if name is None and enabled:
        return enabled[0]
    if name not in enabled:
        raise CliError(
            f"There is no pipeline {name!r} here." if name else "No pipeline is enabled here.",
            f"Enabled pipelines: {', '.join(enabled)}" if enabled else "Enable one in config.json and deploy.",
        )
    return name


def checked_uri(uri: str) -> str:
    """An S3 URI as it is. Raises CliError where it is none."""
    try:
        parse_uri(uri)
    except ValueError as error:
        raise CliError(f"{uri}: {error}.", "Write it as S3 shows it, not URL-encoded.") from error
    return uri


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_text(text: str) -> bool:
    """Python carries bytes that are no UTF-8 through names and arguments as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
