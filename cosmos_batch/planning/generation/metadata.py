"""Read a generation from the metadata of a file or an asset, and from a workflow's configuration in VAMS.

The keys are those of VAMS's own Cosmos 3 pipeline, and `COSMOS3_` with our parameter's name for what it does not have.
If several sources set a key, the file's metadata wins over the asset's, and the asset's over the workflow's
configuration. A mode that starts from text has no file, so that it reads the asset's.
"""

from typing import Any

from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.outputs import variant
from cosmos_batch.contract.generation.parameters import NAMES
from cosmos_batch.contract.metadata import is_set, normalized_key
from cosmos_batch.planning.generation.aliases import by_our_names, is_parameter
from cosmos_batch.planning.generation.prompts import Prompt

_PREFIX = "COSMOS3_"
PROMPT = "COSMOS3_PROMPT"
CONTROL_TYPE, CONTROL_PATH, CONTROL_WEIGHT = "COSMOS3_CONTROL_TYPE", "COSMOS3_CONTROL_PATH", "COSMOS3_CONTROL_WEIGHT"

# The JSON name of the parameter that each key sets.
PARAMETERS = {
    "COSMOS3_TASK_MODE": "mode",
    "COSMOS3_GUIDANCE": "guidanceScale",
    **{f"{_PREFIX}{name.upper()}": json_name for json_name, name in NAMES.items()},
}
_NOT_PARAMETERS = (PROMPT, CONTROL_TYPE, CONTROL_PATH, CONTROL_WEIGHT)
KEYS = {*_NOT_PARAMETERS, *PARAMETERS}

# Keys of a workflow's configuration. It may also contain our parameters by their own names, or as VAMS's templates
# write them: `NUM_FRAMES` is `COSMOS3_NUM_FRAMES`.
PROMPTS = (PROMPT, "prompt", "PROMPT")
MODEL_VARIANT, INVALIDATE = "MODEL_VARIANT", "INVALIDATE_COSMOS_MODELS"
DISABLE_GUARDRAILS, PREVIEW_GIF = "DISABLE_GUARDRAILS", "GENERATE_PREVIEW_GIF"


def keys_of_metadata(*sources: dict[str, Any]) -> dict[str, Any]:
    """Return the values that metadata set for our keys; the first source wins. Blank values count as absent.

    Keys may be written in lower case and with hyphens, as HTTP tools do: `cosmos3-seed`.
    """
    values: dict[str, Any] = {}
    for source in sources:
        for written, value in source.items():
            key = normalized_key(written)
            if key in KEYS and is_set(value):
                values.setdefault(key, value)
    return values


def keys_of_configuration(configuration: dict[str, Any], pipeline: Pipeline) -> dict[str, Any]:
    """Return the values in a workflow's configuration by our keys; anything else in it is ignored. Raises Failure."""
    _refuse_other_variant(configuration, pipeline)
    values = keys_of_metadata(
        configuration, {f"{_PREFIX}{name}": configuration[name] for name in configuration if name.isupper()}
    )
    for name, value in configuration.items():
        if is_set(value) and is_parameter(name) and f"{_PREFIX}{name}" not in values:
            values.setdefault(name, value)
    if prompts := [configuration[name] for name in PROMPTS if is_set(configuration.get(name))]:
        values[PROMPT] = prompts[0]
    if (disabled := read_switch(configuration, DISABLE_GUARDRAILS)) is not None:
        values.setdefault("guardrails", not disabled)
    if (preview := read_switch(configuration, PREVIEW_GIF)) is not None:
        values.setdefault("preview", preview)
    return values


def prompt_and_parameters(*sources: dict[str, Any]) -> tuple[Prompt | None, dict[str, Any]]:
    """Return the prompt and the parameters, for `read_generation_parameters`. Raises ValueError.

    Each source is the result of `keys_of_metadata` or `keys_of_configuration`; the first source wins for each name.
    """
    prompt: Prompt | None = None
    parameters: dict[str, Any] = {}
    for source in sources:
        prompt = source.get(PROMPT) if prompt is None else prompt
        for name, value in _parameters_of_keys(source).items():
            parameters.setdefault(name, value)
    return prompt, parameters


def read_switch(configuration: dict[str, Any], name: str) -> bool | None:
    """Return a form's true or false; None if it is absent or blank. Raises Failure for any other value."""
    value = configuration.get(name)
    if not is_set(value):
        return None
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise Failure("InvalidInput", f"{name} is {str(value)[:40]!r}.", f"Set {name} to true or false.")
    return text == "true"


def _refuse_other_variant(configuration: dict[str, Any], pipeline: Pipeline) -> None:
    written = configuration.get(MODEL_VARIANT)
    if not is_set(written):
        return
    name = str(written).strip().lower().replace("_", "-").removeprefix("nvidia-").removeprefix("cosmos3-")
    if name != variant(pipeline):
        raise Failure(
            "InvalidInput",
            f"{MODEL_VARIANT} is {str(written)[:40]!r}, but {pipeline.id} runs {pipeline.model}.",
            f"Set {MODEL_VARIANT} to {variant(pipeline)!r} or leave it out, or run the workflow of the other pipeline.",
        )


def _parameters_of_keys(source: dict[str, Any]) -> dict[str, Any]:
    parameters = by_our_names(
        {PARAMETERS.get(name, name): value for name, value in source.items() if name not in _NOT_PARAMETERS}
    )
    hint, path, weight = (source.get(key) for key in (CONTROL_TYPE, CONTROL_PATH, CONTROL_WEIGHT))
    if hint is None:
        if path is not None or weight is not None:
            raise ValueError(f"{CONTROL_TYPE}: is missing beside {CONTROL_PATH} or {CONTROL_WEIGHT}")
        return parameters
    return {"mode": "transfer", "controls": _controls(str(hint), path, weight), **parameters}


def _controls(hints: str, paths: Any, weights: Any) -> dict[str, dict[str, str]]:
    """Read controls from lists that are separated by commas and have the same order; a path or weight may be blank."""
    names = [name.strip().lower() for name in hints.split(",")]
    controls: dict[str, dict[str, str]] = {name: {} for name in names}
    for key, field, written in ((CONTROL_PATH, "path", paths), (CONTROL_WEIGHT, "weight", weights)):
        values = [] if written is None else [value.strip() for value in str(written).split(",")]
        if len(values) > len(names):
            raise ValueError(f"{key}: has {len(values)} values for {len(names)} of {CONTROL_TYPE}")
        for name, value in zip(names, values, strict=False):
            if value:
                controls[name][field] = value
    return controls
