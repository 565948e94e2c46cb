"""The inputs of a CodeBuild build: the files of its source, its buildspec, and the values of its variables.

All are read with the credentials of the project's role.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import boto3

from cosmos_batch.local import recorded_calls, runtime
from cosmos_batch.local.codebuild import buildspec
from cosmos_batch.local.codebuild.buildspec import Buildspec, BuildspecError
from cosmos_batch.local.codebuild.record import PhaseError
from cosmos_batch.local.runtime import REGION

DEFAULT_BUILDSPEC = "buildspec.yml"

Variables = dict[str, tuple[str, str]]
"""Type (PLAINTEXT, PARAMETER_STORE or SECRETS_MANAGER) and value of each variable, by its name."""


class BuildInputs:
    """Reads the inputs of a build with the credentials of a role."""

    def __init__(self, role_arn: str) -> None:
        keys = recorded_calls.credentials_of(role_arn)
        self._session = boto3.session.Session(*keys.values(), region_name=REGION)

    def unpack(self, source: dict[str, Any], directory: Path) -> None:
        """Unpack the zip of a source in S3 into a directory."""
        if source["type"] == "NO_SOURCE":
            return
        if source["type"] != "S3":
            raise PhaseError(
                "INVALID_INPUT", f"The local cloud reads sources of the types S3 and NO_SOURCE, not {source['type']}"
            )
        bucket, _, key = source["location"].removeprefix("arn:aws:s3:::").partition("/")
        try:
            body = self._client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
            with zipfile.ZipFile(io.BytesIO(body)) as archive:
                archive.extractall(directory)
        except Exception as error:
            raise PhaseError("CLIENT_ERROR", f"{error} for primary source {source['location']}") from error

    def value_of(self, kind: str, value: str) -> str:
        """Return the value of a variable: the text itself, or the parameter or secret that it names."""
        try:
            if kind == "PARAMETER_STORE":
                parameter = self._client("ssm").get_parameter(Name=value, WithDecryption=True)
                return parameter["Parameter"]["Value"]
            if kind == "SECRETS_MANAGER":
                return self._secret(value)
        except Exception as error:
            raise PhaseError(kind, f"{value} cannot be read: {error}") from error
        return value

    def _secret(self, reference: str) -> str:
        """Read the secret of ``id:json-key``, where the id may be an ARN, which contains colons."""
        words = reference.split(":")
        length = 7 if reference.startswith("arn:") else 1
        text = self._client("secretsmanager").get_secret_value(SecretId=":".join(words[:length]))["SecretString"]
        key = words[length] if len(words) > length else ""
        return str(json.loads(text)[key]) if key else text

    def _client(self, service: str) -> Any:
        return self._session.client(service, endpoint_url=runtime.current().endpoint)


def read_buildspec(source: dict[str, Any], directory: Path) -> Buildspec:
    """Read the buildspec of a source, which is given as text or as the path of a file in the source."""
    text = source.get("buildspec") or DEFAULT_BUILDSPEC
    if "\n" not in text and not text.lstrip().startswith("{"):
        if not (directory / text).is_file():
            raise PhaseError("YAML_FILE_ERROR", f"YAML file does not exist: {text}")
        text = (directory / text).read_text()
    try:
        return buildspec.parse(text)
    except BuildspecError as error:
        raise PhaseError("YAML_FILE_ERROR", str(error)) from error


def variables(spec: Buildspec, environment: dict[str, Any]) -> Variables:
    """Return the variables of the buildspec and of the environment, which takes precedence."""
    return {
        **{name: ("PLAINTEXT", value) for name, value in spec.variables.items()},
        **{name: ("PARAMETER_STORE", value) for name, value in spec.parameters.items()},
        **{name: ("SECRETS_MANAGER", value) for name, value in spec.secrets.items()},
        **{
            pair["name"]: (pair.get("type", "PLAINTEXT"), str(pair["value"]))
            for pair in environment["environmentVariables"]
        },
    }
