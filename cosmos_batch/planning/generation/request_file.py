"""Read `*.cosmos.json`: a request for a generation that is uploaded like any other file.

It is a JSON object with the prompt and parameters by any of their names:
`{"prompt": "A robot pours water.", "mode": "t2v", "resolution": "480p", "seed": 7}`. NVIDIA's own files are requests
too: a structured prompt alone, and a sample of Cosmos Framework, which names the files of its prompts. So is the
document of an earlier generation: to generate the same again.
"""

import json
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field, ValidationError

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.error import Failure, explain
from cosmos_batch.contract.generation.document import Recipe
from cosmos_batch.contract.generation.origin import Origin
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.s3 import S3Uri
from cosmos_batch.planning.generation.aliases import parameter_failure, read_generation_parameters

SUFFIX = ".cosmos.json"
SIZE_LIMIT = 1024 * 1024  # bytes


class GenerationFile(Model):
    """The content of a request file."""

    pipeline: str | None = Field(
        default=None, description="Id of an enabled generator; by default the smallest that has the mode"
    )
    prompt: str | dict[str, Any] = Field(description="What to generate: text, or NVIDIA's structured JSON")
    input: Annotated[str, Field(min_length=1, max_length=2048)] | None = Field(
        default=None, description="Image or video to start from: S3 URI, or the name of a file beside this one"
    )
    output: S3Uri | None = Field(default=None, description="Prefix for the results; beside this file by default")
    parameters: GenerationParameters = Field(description="Written beside these fields, or below `parameters`")
    origin: Origin | None = Field(default=None, description="The earlier generation, if the file is its document")


_FIELDS = ("pipeline", "prompt", "input", "output")
# Fields of NVIDIA's structured prompts (`cookbooks/cosmos3/generator/*/assets/` of NVIDIA/cosmos); each has most.
_PROMPT_PARTS = {
    *("subjects", "background_setting", "lighting", "aesthetics", "cinematography", "style_medium", "artistic_style"),
    *("context", "actions", "text_and_signage_elements", "segments", "transitions", "temporal_caption"),
    *("audio_description", "physical_realism"),
}
_LEAST_PARTS = 3
# A sample may name the files of its prompts: our field for each.
_PROMPT_FILES = {"prompt_path": "prompt", "prompt_file": "prompt", "negative_prompt_file": "negative_prompt"}
_INPUT_ALIASES = ("vision_path", "input_reference", "image_reference", "video_reference")  # Framework's, vLLM-Omni's


def read_request_file(text: bytes, read_beside: Callable[[str], bytes] | None = None) -> GenerationFile:
    """Return the content of a request file. Raises Failure (InvalidInput) that names each wrong field.

    `read_beside` returns the content of a file that the request names as that of a prompt; without it, such a request
    is refused.
    """
    if len(text) > SIZE_LIMIT:
        raise parameter_failure(f"The request has {len(text):,} bytes; the limit is {SIZE_LIMIT:,}.")
    try:
        request = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise parameter_failure(f"The request is not JSON: {error}.") from error
    if isinstance(request, list) and request and all(isinstance(row, list) for row in request):
        raise Failure(
            "InvalidInput",
            f"The file is no request, but {counted(len(request), 'action')}.",
            "Name an image to start from, and this file as actionPath (--mode forward_dynamics --action-path FILE).",
        )
    if not isinstance(request, dict):
        raise parameter_failure("The request is not a JSON object.")
    if "generation" in request:
        return _read_document(request)
    if is_structured_prompt(request):
        return GenerationFile(prompt=request, parameters=GenerationParameters())
    request.pop("name", None)  # Cosmos Framework names the folder of a sample's results by it
    request = _with_prompt_files(request, read_beside)
    fields = {name: request.pop(name) for name in _FIELDS if name in request}
    for name in _INPUT_ALIASES:
        if name in request:
            fields.setdefault("input", request.pop(name))
    nested = request.pop("parameters", {})
    if not isinstance(nested, dict):
        raise parameter_failure("parameters: is not a JSON object.")
    parameters = read_generation_parameters({**nested, **request})
    try:
        return GenerationFile.model_validate({**fields, "parameters": parameters})
    except ValidationError as error:
        raise parameter_failure(explain(error)) from error


def is_structured_prompt(value: object) -> bool:
    """Return whether a JSON value is one of NVIDIA's structured prompts, and no request that contains one."""
    return isinstance(value, dict) and "prompt" not in value and len(_PROMPT_PARTS & value.keys()) >= _LEAST_PARTS


def _with_prompt_files(request: dict[str, Any], read_beside: Callable[[str], bytes] | None) -> dict[str, Any]:
    """Return the request with the content of the files that it names as prompts."""
    for name, field in _PROMPT_FILES.items():
        if name not in request:
            continue
        path = request.pop(name)
        if read_beside is None or not isinstance(path, str):
            raise Failure(
                "InvalidInput",
                f"{name}: only `cosmos-batch generate` reads the files of prompts, by their names on its machine.",
                f"Write the content of the file as {field} into the request.",
            )
        content = read_beside(path)
        try:
            request[field] = json.loads(content) if path.endswith(".json") else content.decode()
        except (ValueError, RecursionError) as error:
            raise parameter_failure(
                f"{name}: {path} is not {'JSON' if path.endswith('.json') else 'UTF-8'}."
            ) from error
    return request


def _read_document(document: dict[str, Any]) -> GenerationFile:
    try:
        recipe = Recipe.model_validate(document)
        parameters = recipe.parameters
    except ValidationError as error:
        raise Failure(
            "InvalidInput",
            f"The document has been changed since it was written: {explain(error)}",
            "Use it as it was written, and set what is to differ beside it, such as --seed 8.",
        ) from error
    return GenerationFile(
        pipeline=recipe.pipeline,
        prompt=recipe.generation.prompt,
        input=None if recipe.input is None else recipe.input.uri,
        parameters=parameters,
        origin=recipe.origin,
    )
