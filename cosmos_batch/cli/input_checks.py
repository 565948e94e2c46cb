"""Check what a person names on the command line, before anything is started or sent."""

import hashlib
import os
from pathlib import Path
from unicodedata import category

from cosmos_batch.catalogue.formats import EXTENSIONS, extension
from cosmos_batch.catalogue.pipelines import DEFAULT_PROMPT, pipeline_named
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.planning.input_files import refuse_prompt_size, refuse_size

File = Path | str
"""A file of this machine, or an S3 URI."""


def checked_file(name: str) -> File:
    """Return a file of this machine as a path, or an S3 URI as it is. Raises WrongCall."""
    return checked_uri(name) if name.startswith("s3://") else checked_path(name)


def checked_path(name: str, extensions: tuple[str, ...] = EXTENSIONS) -> Path:
    """Return a file as a path. Raises WrongCall, or Failure, where no pipeline takes its name, kind or size."""
    path = Path(name).expanduser()
    if path.is_dir():
        raise WrongCall(f"{name} is a folder.", f"Name a file in it: {name.rstrip('/')}/NAME")
    if not path.is_file():
        raise WrongCall(f"{name} does not exist.", f"Check the name; this command runs in {Path.cwd()}.")
    if extension(path.name) not in extensions:
        raise WrongCall(f"{name} is of a kind that no pipeline takes.", f"Allowed extensions: {', '.join(extensions)}")
    if not _is_utf8(path.name):
        raise WrongCall(f"{name!r} is not valid UTF-8, which names in S3 must be.", "Rename the file.")
    _refuse_control_characters(name)
    if not os.access(path, os.R_OK):
        raise WrongCall(f"{name} cannot be read.", "Check its permissions.")
    refuse_size(name, path.stat().st_size)
    return path


def checked_uri(uri: str, extensions: tuple[str, ...] = EXTENSIONS) -> str:
    """Return the S3 URI of one file as it is. Raises WrongCall for a folder, a pattern, or another kind of file."""
    try:
        key = parse_uri(uri).key
    except ValueError as error:
        raise WrongCall(f"{uri}: {error}.", "Write it as S3 shows it, not URL-encoded.") from error
    if key == "" or key.endswith("/"):
        raise WrongCall(f"{uri} is a folder.", "Name the files in it, each by its own URI.")
    if "*" in key.rpartition("/")[2]:
        raise WrongCall(f"{uri} is a pattern, and S3 knows none.", "Name the files, each by its own URI.")
    if extension(key) not in extensions:
        raise WrongCall(f"{uri} is of a kind that no pipeline takes.", f"Allowed extensions: {', '.join(extensions)}")
    return uri


def checked_source_uri(uri: str) -> str:
    """Return the S3 URI of one file to ask about, as `checked_uri` does.

    Where a prefix is meant, the WrongCall says how all files below it are taken.
    """
    try:
        return checked_uri(uri)
    except WrongCall as error:
        folder, _, name = uri.rpartition("/")
        if "*" not in name and extension(name):
            raise
        prefix = folder if "*" in name else uri
        hint = f"To take all files below a prefix, end it with /: {prefix}/"
        raise WrongCall(error.message, f"{error.remedy.rstrip('.')}. {hint}") from error


def checked_prompt(prompt: str | None) -> str:
    """Return the prompt, or the default one for None. Raises WrongCall, or Failure for a long one."""
    text = DEFAULT_PROMPT if prompt is None else prompt
    if not text.strip():
        raise WrongCall("The prompt is empty.", "Write what to ask, or leave --prompt out for the default question.")
    if not _is_utf8(text):
        raise WrongCall("The prompt is not valid UTF-8.", "Check the terminal's encoding; it should be UTF-8.")
    refuse_prompt_size(len(text.encode()))
    return text


def chosen_pipeline(name: str | None, enabled: list[str]) -> str:
    """Return a pipeline's id, the smallest enabled one for None. Raises WrongCall where it is not enabled."""
    if name is None and enabled:
        return enabled[0]
    if name not in enabled:
        raise WrongCall(
            f"There is no pipeline {name!r} here." if name else "No pipeline is enabled here.",
            f"Enabled pipelines: {', '.join(enabled)}" if enabled else "Enable one in config.json and deploy.",
        )
    return name


def chosen_reasoner(name: str | None, enabled: list[str]) -> str:
    """Return the id of a reasoner, the smallest enabled one for None. Raises WrongCall, also for a generator."""
    if name is not None and is_generator(name):
        raise WrongCall(f"{name} answers no question: it is a generator.", "Use `cosmos-batch generate`.")
    return chosen_pipeline(name, [one for one in enabled if is_reasoner(one)])


def is_reasoner(pipeline_id: str) -> bool:
    """Return whether a pipeline answers questions about files."""
    pipeline = pipeline_named(pipeline_id)
    return pipeline is not None and pipeline.surface == "reasoner"


def is_generator(pipeline_id: str) -> bool:
    """Return whether a pipeline makes images, videos or actions."""
    pipeline = pipeline_named(pipeline_id)
    return pipeline is not None and pipeline.surface == "generator"


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checked_folder(name: str) -> Path:
    """Return a folder of this machine as a path. Raises WrongCall where its name cannot stand in a list of files."""
    _refuse_control_characters(name)
    return Path(name).expanduser()


def _refuse_control_characters(name: str) -> None:
    if has_control_character(name):
        raise WrongCall(f"{name!r} has a line break or another control character.", "Rename the file or folder.")


def has_control_character(text: str) -> bool:
    """Return whether a text has a line break or another control character."""
    return any(category(character) == "Cc" for character in text)


def _is_utf8(text: str) -> bool:
    """Return whether a text is UTF-8. Python represents other bytes in names as lone surrogates (PEP 383)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
