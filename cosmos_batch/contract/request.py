"""The request of a caller: the input of the state machine, which an upload, VAMS or a person starts."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, SecretStr

from cosmos_batch.contract.base import Model, Time
from cosmos_batch.contract.generation.origin import Origin
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.s3 import S3Uri
from cosmos_batch.contract.settings import QUEUE_DAYS


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("holds half of a surrogate pair, which is no character") from error
    return text


# JSON can contain half of a surrogate pair, such as "\ud83d", which cannot be encoded as UTF-8.
Text = Annotated[str, AfterValidator(_encodable)]


class Request(Model):
    """A request for one answer or one generation.

    A person writes the first three fields; the Lambda functions add the others.
    """

    pipeline: str = Field(description="Id of an enabled pipeline, such as cosmos-reason2-2b")
    input: S3Uri | None = Field(default=None, description="The file; none for pipelines that start from text")
    prompt: Text | None = Field(default=None, description="What to ask; blank or absent: the default prompt")
    prompt_uri: S3Uri | None = Field(default=None, description="Where the prompt lies, if it is a long one")
    system_prompt: Text | None = Field(default=None, max_length=16_384, description="Instead of the default one")
    parameters: Parameters = Field(default_factory=Parameters, description="Settings of the answer")
    generation: GenerationParameters | None = Field(
        default=None, description="Of a generator: what to make. A person may call it `parameters` here too"
    )
    request_file: S3Uri | None = Field(
        default=None, description="Of a generator: a `*.cosmos.json` that says what is not said here"
    )
    origin: Origin | None = Field(
        default=None, description="Of a generator: how it was made before, if it is made again"
    )
    request_file_version: str | None = Field(default=None, description="S3 version of it; the latest if absent")
    metadata: dict[str, Any] = Field(
        default_factory=dict,
        description="Parameters as the file's metadata has them, in text; each goes before its namesake above",
    )
    input_version_id: str | None = Field(default=None, description="S3 version of the input; the latest if absent")
    sidecar: str | None = Field(default=None, description="Version (or ETag) of the sidecar that the prompt came from")
    uploaded: bool = Field(
        default=False, description="An upload started it: an error is told in a document beside the file, too"
    )
    faults: list[str] = Field(
        default_factory=list, description="What is wrong in the file's metadata or sidecar: it is refused for that"
    )
    output: S3Uri | None = Field(default=None, description="Prefix for the results; beside the input if absent")
    asset_id: str | None = Field(default=None, description="VAMS asset: its folder roots relative directories")
    caller: Text | None = Field(
        default=None, max_length=1024, description="Who asks: of one pipeline, callers are served fairly"
    )
    invalidate_model: bool = Field(
        default=False, description="Drop stored copies of the model that are older than this"
    )
    deadline: Time | None = Field(
        default=None,
        description=f"Not answered by then, the request fails TimedOut; at most {QUEUE_DAYS} days from now",
    )
    callback: SecretStr | None = Field(
        default=None,
        strict=False,
        exclude=True,  # histories and logs would keep it
        description="Task token to answer. It is moved to the state table before anything else sees the request",
    )
