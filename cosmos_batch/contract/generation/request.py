"""`*.cosmos.json`: a request for a generation, uploaded like any other file.

It is a JSON object with the prompt, and beside it parameters by any of their names:
`{"prompt": "A robot pours water.", "mode": "t2v", "resolution": "480p", "seed": 7}`. Or it is the document of what was
made before, which is then made again.
"""

import json
from typing import Annotated, Any

from pydantic import Field, ValidationError

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import Failure, explain
from cosmos_batch.contract.generation.document import Recipe
from cosmos_batch.contract.generation.origin import Origin
from cosmos_batch.contract.generation.parameters import GenerationParameters, read_generation
from cosmos_batch.contract.s3 import S3Uri

SUFFIX = ".cosmos.json"
SIZE_LIMIT = 1024 * 1024  # bytes
EXAMPLE = '{"prompt": "A robot pours water.", "mode": "t2v", "resolution": "480p"}'


class GenerationFile(Model):
    """What such a file says."""

    pipeline: str | None = Field(
        default=None, description="Id of an enabled generator; the smallest that does the mode"
    )
    prompt: str | dict[str, Any] = Field(description="What to make: text, or NVIDIA's structured JSON")
    input: Annotated[str, Field(min_length=1, max_length=2048)] | None = Field(
        default=None, description="Image or video to start from: S3 URI, or the name of a file beside this one"
    )
    output: S3Uri | None = Field(default=None, description="Prefix for the results; beside this file if absent")
    parameters: GenerationParameters = Field(description="What stands beside these fields, or below `parameters`")
    origin: Origin | None = Field(default=None, description="Of a document")


_OWN = ("pipeline", "prompt", "input", "output")
_INPUTS = ("vision_path", "input_reference", "image_reference", "video_reference")  # Cosmos Framework's, vLLM-Omni's


def read_request_file(text: bytes) -> GenerationFile:
    """Raises Failure which says what is wrong in it, field by field."""
    if len(text) > SIZE_LIMIT:
        raise _refusal(f"The request has {len(text):,} bytes; {SIZE_LIMIT:,} are read.")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refusal("The request is not JSON.") from error
    if not isinstance(said, dict):
        raise _refusal("The request is not a JSON object.")
    if "generation" in said:
        return _of_document(said)
    own = {name: said.pop(name) for name in _OWN if name in said}
    for name in _INPUTS:
        if name in said:
            own.setdefault("input", said.pop(name))
    nested = said.pop("parameters", {})
    if not isinstance(nested, dict):
        raise _refusal("parameters: is not a JSON object.")
    parameters = parameters_or_refuse({**nested, **said})
    try:
        return GenerationFile.model_validate({**own, "parameters": parameters})
    except ValidationError as error:
        raise _refusal(explain(error)) from error


def _of_document(said: dict[str, Any]) -> GenerationFile:
    try:
        recipe = Recipe.model_validate(said)
        parameters = recipe.parameters
    except ValidationError as error:
        raise Failure(
            "InvalidInput",
            f"The document is not as it was written: {explain(error)}",
            "Take it as it was written; what shall be otherwise, say beside it: --seed 8.",
        ) from error
    return GenerationFile(
        pipeline=recipe.pipeline,
        prompt=recipe.generation.prompt,
        input=None if recipe.input is None else recipe.input.uri,
        parameters=parameters,
        origin=recipe.origin,
    )


def parameters_or_refuse(said: dict[str, Any]) -> GenerationParameters:
    """Parameters by any of their names. Raises Failure."""
    try:
        return read_generation(said)
    except ValidationError as error:
        raise _refusal(explain(error)) from error
    except ValueError as error:
        raise _refusal(str(error)) from error


def _refusal(problem: str) -> Failure:
    return Failure("InvalidInput", problem, f"A request looks like {EXAMPLE}")
