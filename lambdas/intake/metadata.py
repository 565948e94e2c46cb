"""A file's metadata: what its uploader says about it, in the first of three places that says it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from email.errors import HeaderParseError
from email.header import decode_header
from typing import Any

from cosmos_batch.catalogue.formats import EXTENSIONS
from cosmos_batch.contract.json_schema import too_deep
from cosmos_batch.contract.metadata import PARAMETERS, PIPELINE, PROMPT, SIDECAR_SUFFIX, SYSTEM_PROMPT, is_said
from cosmos_batch.contract.s3 import S3Location, extension
from cosmos_batch.planning.generation.metadata import PROMPT as GENERATION_PROMPT
from cosmos_batch.planning.generation.metadata import keys_of_metadata
from lambdas.clients import client
from lambdas.intake.metadata_faults import unknown_settings
from lambdas.s3_objects import StoredObject, real_version

SIDECAR_LIMIT = 1024 * 1024  # bytes; what is larger is no sidecar of ours
VALUE_LIMIT = 32 * 1024  # characters; what is longer would not fit into the execution's input, which takes 256 KiB
SETTINGS = {**PARAMETERS, SYSTEM_PROMPT: "systemPrompt"}


@dataclass(frozen=True)
class FileMetadata:
    """What counts of it.

    `settings` are parameters and system prompt as they were written, by their names in JSON: `plan` refuses what is
    wrong in them, where a person can see it. `sidecar` is the version (or ETag) of the sidecar that it came from, if
    any of it did. `generation` is what the COSMOS3_ keys beside the prompt say, by those keys. `faults` are sentences
    about what cannot be meant, for which the file is refused.
    """

    prompt: str | None
    pipeline: str | None
    settings: dict[str, Any]
    sidecar: str | None
    generation_prompt: str | None = None
    generation: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def asks(self) -> bool:
        """Whether it asks the model something: in words, or by the name of a task."""
        return self.prompt is not None or "task" in self.settings

    @property
    def makes(self) -> bool:
        """Whether it asks a generator for something."""
        return self.generation_prompt is not None


@dataclass(frozen=True)
class Sidecar:
    """What stands beside a file: keys, or a fault; nothing where there is no sidecar. `version` or ETag."""

    keys: dict[str, Any] = field(default_factory=dict)
    version: str | None = None
    fault: str | None = None

    @property
    def is_about_us(self) -> bool:
        """Whether anything in it changes what is done with its file."""
        asks = find(self.keys, PROMPT) is not None or bool(_settings([self.keys])) or bool(keys_of_metadata(self.keys))
        return asks or self.fault is not None or bool(unknown_settings(self.keys))


def read_metadata(file: StoredObject) -> FileMetadata:
    """Look for each key in the sidecar, then in the object's user metadata, then in its tags; blank is absent."""
    sidecar = _read_sidecar(file.location)
    user = {name: decode_rfc2047(value) for name, value in file.metadata.items()}
    sources = [sidecar.keys, user, _read_tags(file)]
    unknown = [fault for source in sources for fault in unknown_settings(source)]
    said = keys_of_metadata(*sources)
    prompt = said.pop(GENERATION_PROMPT, None)
    return FileMetadata(
        prompt=_first(sources, PROMPT),
        pipeline=_first(sources, PIPELINE),
        settings=_settings(sources),
        sidecar=sidecar.version if sidecar.is_about_us else None,
        generation_prompt=_encodable(prompt if isinstance(prompt, str) else json.dumps(prompt)) if prompt else None,
        generation={key: _bounded(value) for key, value in said.items()},
        faults=[*([] if sidecar.fault is None else [sidecar.fault]), *dict.fromkeys(unknown)],
    )


def earlier_sidecars(file: StoredObject) -> list[str]:
    """The versions of its sidecar that came after it and are not the latest; none where no versions are kept."""
    key, written_at = file.location.key + SIDECAR_SUFFIX, datetime.fromisoformat(file.last_modified)
    listed = client("s3").list_object_versions(Bucket=file.location.bucket, Prefix=key)
    return [
        one["VersionId"]
        for one in listed.get("Versions", [])
        if one["Key"] == key and not one["IsLatest"] and one["LastModified"] >= written_at
    ]


def find(source: dict[str, Any], name: str) -> str | None:
    """A key's text; what is none is absent."""
    return next((_encodable(value) for value in _values(source, name) if isinstance(value, str)), None)


def _values(source: dict[str, Any], name: str) -> Iterator[Any]:
    """S3 lower-cases the keys of user metadata, and HTTP tools write `-` for `_`: both are accepted."""
    for key, value in source.items():
        if key.upper().replace("-", "_") == name and is_said(value):
            yield value


def _encodable(text: str) -> str:
    """JSON can hold half a surrogate pair, UTF-8 cannot."""
    return text.encode(errors="replace").decode()


def _settings(sources: list[dict[str, Any]]) -> dict[str, Any]:
    """Each setting, from the first source that has it."""
    found = ((alias, _values(source, key)) for key, alias in SETTINGS.items() for source in reversed(sources))
    return {alias: _bounded(value) for alias, values in found for value in values}


def _bounded(value: Any) -> Any:
    """The value as an execution can be started with it. What is too long is told, and so refused by `plan`."""
    text = json.dumps(value)
    if len(text) > VALUE_LIMIT or too_deep(value):
        return f"(a value of {len(text):,} characters)"
    return json.loads(_encodable(json.dumps(value, ensure_ascii=False)))


def decode_rfc2047(value: str) -> str:
    """`=?UTF-8?B?w6k=?=` as `é`: so S3 hands out what is not ASCII. What is no such encoding is returned as it is."""
    try:
        return "".join(_decode_part(text, charset) for text, charset in decode_header(value))
    except (HeaderParseError, LookupError, ValueError):
        return value


def parse_sidecar(text: bytes) -> dict[str, Any]:
    """The keys of a sidecar, flat or as VAMS nests them (`VAMS.fileMetadata`). Raises ValueError with what is wrong."""
    if len(text) > SIDECAR_LIMIT:
        raise ValueError(f"has more than {SIDECAR_LIMIT:,} bytes")
    try:
        parsed = json.loads(text)
    except UnicodeDecodeError as error:
        raise ValueError("is no text in UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is no JSON: {error}") from error
    for level in ("VAMS", "fileMetadata"):
        if isinstance(parsed, dict) and isinstance(parsed.get(level), dict):
            parsed = parsed[level]
    if not isinstance(parsed, dict):
        raise ValueError("is no JSON object")
    return parsed


def _first(sources: list[dict[str, Any]], name: str) -> str | None:
    return next((text for source in sources if (text := find(source, name)) is not None), None)


def _decode_part(text: str | bytes, charset: str | None) -> str:
    if isinstance(text, str):
        return text
    # What stands between encoded words comes as bytes without a charset.
    return text.decode(charset or "raw-unicode-escape")


def _read_sidecar(file: S3Location) -> Sidecar:
    s3, key = client("s3"), file.key + SIDECAR_SUFFIX
    try:
        answer = s3.get_object(Bucket=file.bucket, Key=key)
    except s3.exceptions.NoSuchKey:
        return Sidecar()
    version = real_version(answer) or answer["ETag"]
    try:
        return Sidecar(parse_sidecar(answer["Body"].read(SIDECAR_LIMIT + 1)), version)
    except ValueError as error:
        if extension(file.key) not in EXTENSIONS:  # another tool's, beside a file that is no input of ours
            return Sidecar()
        return Sidecar(version=version, fault=f"{key.rpartition('/')[2]}: {error}.")


def _read_tags(file: StoredObject) -> dict[str, Any]:
    version = {} if file.version_id is None else {"VersionId": file.version_id}
    answer = client("s3").get_object_tagging(Bucket=file.location.bucket, Key=file.location.key, **version)
    return {tag["Key"]: tag["Value"] for tag in answer["TagSet"]}
