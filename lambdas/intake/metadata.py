"""Read what the uploader of a file writes about it: in its sidecar, in its user metadata, or in its tags."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from email.errors import HeaderParseError
from email.header import decode_header
from typing import Any

from cosmos_batch.catalogue.formats import EXTENSIONS, extension
from cosmos_batch.contract.json_schema import too_deep
from cosmos_batch.contract.metadata import (
    PARAMETERS,
    PIPELINE,
    PROMPT,
    SIDECAR_SUFFIX,
    SYSTEM_PROMPT,
    is_set,
    normalized_key,
)
from cosmos_batch.contract.s3 import S3Location
from cosmos_batch.planning.generation.metadata import KEYS as GENERATOR_KEYS
from cosmos_batch.planning.generation.metadata import PROMPT as GENERATION_PROMPT
from cosmos_batch.planning.generation.metadata import keys_of_metadata
from lambdas.clients import client
from lambdas.s3_objects import NO_VERSION, StoredObject, is_refused, real_version

SIDECAR_LIMIT = 1024 * 1024  # bytes; a larger file is no sidecar of ours
VALUE_LIMIT = 32 * 1024  # characters of a value: an execution's input takes 256 KiB in all
SETTINGS = {**PARAMETERS, SYSTEM_PROMPT: "systemPrompt"}

# A key with one of these prefixes is meant for us. VAMS's other pipelines have other names, as COSMOS_PREDICT_PROMPT.
_PREFIXES = ("COSMOS_REASON_", "COSMOS3_")
_KNOWN_KEYS = {PROMPT, SYSTEM_PROMPT, *PARAMETERS, *GENERATOR_KEYS}
_NAME_LIMIT = 80  # characters of a key that a fault quotes


@dataclass(frozen=True)
class FileMetadata:
    """The settings that a file's metadata has for Cosmos Batch.

    Attributes
    ----------
    prompt
        The reasoner's prompt.
    pipeline
        The id of the pipeline that the metadata names.
    settings
        The reasoner's parameters and system prompt as they were written, by their names in JSON. `plan` checks them,
        so that the refusal of a wrong one reaches the uploader.
    sidecar
        The sidecar's version, or its ETag; None where no sidecar changes the request.
    generation_prompt
        The generator's prompt.
    generation
        The values of the other keys for a generator, by key.
    faults
        Sentences about keys and sidecars that nobody can have meant; the file is refused for them.
    """

    prompt: str | None
    pipeline: str | None
    settings: dict[str, Any]
    sidecar: str | None
    generation_prompt: str | None = None
    generation: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def asks_reasoner(self) -> bool:
        """Return whether it has a question for a reasoner: a prompt, or the name of a task."""
        return self.prompt is not None or "task" in self.settings

    @property
    def asks_generator(self) -> bool:
        """Return whether it has a prompt for a generator."""
        return self.generation_prompt is not None


@dataclass(frozen=True)
class Sidecar:
    """The keys of a file's sidecar, or the fault in it; both are empty where the file has none.

    `version` is the sidecar's version, or its ETag in a bucket without versioning.
    """

    keys: dict[str, Any] = field(default_factory=dict)
    version: str | None = None
    fault: str | None = None

    @property
    def changes_request(self) -> bool:
        """Return whether its prompt, a setting or a fault changes the request for its file; its pipeline does not."""
        settings = _settings([self.keys]) or keys_of_metadata(self.keys) or unknown_settings(self.keys)
        return find(self.keys, PROMPT) is not None or self.fault is not None or bool(settings)


def read_metadata(file: StoredObject) -> FileMetadata:
    """Read each key from the sidecar, else from the user metadata, else from the tags; blank values count as absent."""
    sidecar = _read_sidecar(file.location)
    user = {name: decode_rfc2047(value) for name, value in file.metadata.items()}
    tags, refused_tags = _read_tags(file)
    sources = [sidecar.keys, user, tags]
    unknown = [fault for source in sources for fault in unknown_settings(source)]
    generation = keys_of_metadata(*sources)
    prompt = generation.pop(GENERATION_PROMPT, None)
    return FileMetadata(
        prompt=_first(sources, PROMPT),
        pipeline=_first(sources, PIPELINE),
        settings=_settings(sources),
        sidecar=sidecar.version if sidecar.changes_request else None,
        generation_prompt=_encodable(prompt if isinstance(prompt, str) else json.dumps(prompt)) if prompt else None,
        generation={key: _bounded(value) for key, value in generation.items()},
        faults=[fault for fault in (sidecar.fault, refused_tags) if fault is not None] + list(dict.fromkeys(unknown)),
    )


def earlier_sidecars(file: StoredObject) -> list[str]:
    """Return the versions of a file's sidecar that were written after the file, without the latest.

    There are none in a bucket without versioning.
    """
    written_at = datetime.fromisoformat(file.last_modified)
    return [
        version["VersionId"]
        for version in _sidecar_versions(file.location)
        if not version["IsLatest"] and version["LastModified"] >= written_at
    ]


def find(source: dict[str, Any], name: str) -> str | None:
    """Return the text of a key; None if it is absent, blank or not text."""
    return next((_encodable(value) for value in _values(source, name) if isinstance(value, str)), None)


def _values(source: dict[str, Any], name: str) -> Iterator[Any]:
    """Yield the values of a key, in whichever case and with hyphens or underscores it is written."""
    for key, value in source.items():
        if normalized_key(key) == name and is_set(value):
            yield value


def _encodable(text: str) -> str:
    """Replace what UTF-8 cannot encode: JSON may hold half of a surrogate pair."""
    return text.encode(errors="replace").decode()


def _settings(sources: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the reasoner's settings, each from the first source that has it."""
    values_by_alias = ((alias, _values(source, key)) for key, alias in SETTINGS.items() for source in reversed(sources))
    return {alias: _bounded(value) for alias, values in values_by_alias for value in values}


def _bounded(value: Any) -> Any:
    """Return a value, or a text that `plan` refuses in the place of one that does not fit into an execution's input."""
    text = json.dumps(value)
    if len(text) > VALUE_LIMIT or too_deep(value):
        return f"(a value of {len(text):,} characters)"
    return json.loads(_encodable(json.dumps(value, ensure_ascii=False)))


def decode_rfc2047(value: str) -> str:
    """Decode a header as RFC 2047 encodes it, such as `=?UTF-8?B?w6k=?=` for `é`; return any other text as it is.

    S3 returns user metadata that is not ASCII in this encoding.
    """
    try:
        return "".join(_decode_part(text, charset) for text, charset in decode_header(value))
    except (HeaderParseError, LookupError, ValueError):
        return value


def parse_sidecar(text: bytes) -> dict[str, Any]:
    """Return the keys of a sidecar: a JSON object, or the one below `VAMS.fileMetadata` in it, as VAMS writes it.

    Raises
    ------
    ValueError
        The text is no JSON object, or too long. The message continues a sentence that begins with the file's name.
    """
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


def unknown_settings(source: dict[str, Any]) -> list[str]:
    """Return a sentence for each key with one of our prefixes that is no setting, unless its value is blank.

    Values are not checked here but by `plan`, which knows the pipeline.
    """
    keys = {normalized_key(key) for key, value in source.items() if is_set(value)}
    return [_unknown(key) for key in sorted(keys) if key.startswith(_PREFIXES) and key not in _KNOWN_KEYS]


def _unknown(key: str) -> str:
    similar = get_close_matches(key, sorted(_KNOWN_KEYS), 1)
    return f"{key[:_NAME_LIMIT]}: there is no such setting" + (f"; is {similar[0]} meant?" if similar else ".")


def _first(sources: list[dict[str, Any]], name: str) -> str | None:
    return next((text for source in sources if (text := find(source, name)) is not None), None)


def _decode_part(text: str | bytes, charset: str | None) -> str:
    if isinstance(text, str):
        return text
    # `decode_header` returns the text between encoded words as bytes without a charset.
    return text.decode(charset or "raw-unicode-escape")


def _read_sidecar(file: S3Location) -> Sidecar:
    s3, key = client("s3"), file.key + SIDECAR_SUFFIX
    try:
        answer = s3.get_object(Bucket=file.bucket, Key=key)
    except s3.exceptions.NoSuchKey:
        return Sidecar()
    except s3.exceptions.ClientError as error:
        if not is_refused(error):
            raise
        return _refused_sidecar(file, error)
    version = real_version(answer) or answer["ETag"]
    try:
        return Sidecar(parse_sidecar(answer["Body"].read(SIDECAR_LIMIT + 1)), version)
    except ValueError as error:
        return _faulty_sidecar(file, version, f"{error}.")


def _refused_sidecar(file: S3Location, error: Any) -> Sidecar:
    """Return a sidecar that S3 does not let us read. Its version is listed, for which nobody needs to read it."""
    latest = next((version for version in _sidecar_versions(file) if version["IsLatest"]), None)
    if latest is None:  # it was deleted since
        return Sidecar()
    return _faulty_sidecar(
        file,
        latest["ETag"] if latest["VersionId"] == NO_VERSION else latest["VersionId"],
        f"S3 refuses to let Cosmos Batch read it ({_code(error)}). Let its roles use the key that encrypts it, in the "
        "key's policy and as kmsKeyArn of the bucket, or let the bucket's account own it.",
    )


def _faulty_sidecar(file: S3Location, version: str, fault: str) -> Sidecar:
    """Return a sidecar with a fault; one without, if another tool wrote it beside a file that is no input of ours."""
    if extension(file.key) not in EXTENSIONS:
        return Sidecar()
    return Sidecar(version=version, fault=f"{file.key.rpartition('/')[2]}{SIDECAR_SUFFIX}: {fault}")


def _sidecar_versions(file: S3Location) -> list[dict[str, Any]]:
    """Return the versions of a file's sidecar, the latest first, as S3 lists them."""
    key = file.key + SIDECAR_SUFFIX
    listed = client("s3").list_object_versions(Bucket=file.bucket, Prefix=key)
    return [version for version in listed.get("Versions", []) if version["Key"] == key]


def _read_tags(file: StoredObject) -> tuple[dict[str, Any], str | None]:
    """Return the tags of a file, and the fault if S3 does not let us read them and the file may be an input of ours."""
    s3, location = client("s3"), file.location
    version = {} if file.version_id is None else {"VersionId": file.version_id}
    try:
        answer = s3.get_object_tagging(Bucket=location.bucket, Key=location.key, **version)
    except s3.exceptions.ClientError as error:
        if not is_refused(error):
            raise
        if extension(location.key) not in EXTENSIONS:
            return {}, None
        return {}, (
            f"{location.key.rpartition('/')[2]}: S3 refuses to let Cosmos Batch read its tags ({_code(error)}). "
            "Let its roles read them in the bucket's policy, or let the bucket's account own the file."
        )
    return {tag["Key"]: tag["Value"] for tag in answer["TagSet"]}, None


def _code(error: Any) -> str:
    """Return the HTTP status and the code of a ClientError, for a person."""
    response = error.response
    return f"HTTP {response['ResponseMetadata']['HTTPStatusCode']}, {response['Error']['Code']}"
