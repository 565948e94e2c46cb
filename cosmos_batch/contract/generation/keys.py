"""What people and VAMS write of a generation beside a file, an asset or a workflow.

The names are those of VAMS's own Cosmos 3 pipeline, and for what it does not know `COSMOS3_` and our parameter's name.
Each thing is said by the first who says it: the file's metadata, the asset's, the workflow's configuration. A mode that
starts from text has no file, so that it reads the asset's.
"""

from typing import Any

from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.names import canonical
from cosmos_batch.contract.generation.outputs import variant
from cosmos_batch.contract.generation.parameters import NAMES, is_known
from cosmos_batch.contract.metadata import is_said

_PREFIX = "COSMOS3_"
PROMPT = "COSMOS3_PROMPT"
CONTROL_TYPE, CONTROL_PATH, CONTROL_WEIGHT = "COSMOS3_CONTROL_TYPE", "COSMOS3_CONTROL_PATH", "COSMOS3_CONTROL_WEIGHT"

# The name in JSON of what each of these keys says.
PARAMETERS = {
    "COSMOS3_TASK_MODE": "mode",
    "COSMOS3_GUIDANCE": "guidanceScale",
    **{f"COSMOS3_{name.upper()}": alias for alias, name in NAMES.items()},
}
_WRITTEN_APART = (PROMPT, CONTROL_TYPE, CONTROL_PATH, CONTROL_WEIGHT)
KEYS = {*_WRITTEN_APART, *PARAMETERS}

# Of a workflow's configuration; the prompt and our parameters stand there by their own names, or as VAMS's own
# templates write them: `NUM_FRAMES` is `COSMOS3_NUM_FRAMES`.
PROMPTS = (PROMPT, "prompt", "PROMPT")
MODEL_VARIANT, INVALIDATE = "MODEL_VARIANT", "INVALIDATE_COSMOS_MODELS"
DISABLE_GUARDRAILS, PREVIEW_GIF = "DISABLE_GUARDRAILS", "GENERATE_PREVIEW_GIF"


def of_metadata(*sources: dict[str, Any]) -> dict[str, Any]:
    """Our keys of several sources, the first before the others. HTTP tools write `cosmos3-seed`; blank is absent."""
    found: dict[str, Any] = {}
    for source in sources:
        for written, value in source.items():
            key = written.upper().replace("-", "_")
            if key in KEYS and is_said(value):
                found.setdefault(key, value)
    return found


def of_configuration(configuration: dict[str, Any], pipeline: Pipeline) -> dict[str, Any]:
    """What a workflow's configuration says, by our keys; what is not ours is left alone. Raises Failure."""
    _refuse_variant(configuration, pipeline)
    found = of_metadata(
        configuration, {f"{_PREFIX}{name}": configuration[name] for name in configuration if name.isupper()}
    )
    for name, value in configuration.items():
        if is_said(value) and is_known(name) and f"{_PREFIX}{name}" not in found:
            found.setdefault(name, value)
    if prompts := [configuration[name] for name in PROMPTS if is_said(configuration.get(name))]:
        found[PROMPT] = prompts[0]
    if (disabled := switch(configuration, DISABLE_GUARDRAILS)) is not None:
        found.setdefault("guardrails", not disabled)
    if (preview := switch(configuration, PREVIEW_GIF)) is not None:
        found.setdefault("preview", preview)
    return found


def prompt_and_parameters(*sources: dict[str, Any]) -> tuple[str | dict[str, Any] | None, dict[str, Any]]:
    """The prompt, and the parameters as they were written, for `read_generation`. Raises ValueError.

    Each source is what `of_metadata` or `of_configuration` made; the first goes before the others, name by name.
    """
    prompt: str | dict[str, Any] | None = None
    said: dict[str, Any] = {}
    for source in sources:
        prompt = source.get(PROMPT) if prompt is None else prompt
        for name, value in _by_our_names(source).items():
            said.setdefault(name, value)
    return prompt, said


def switch(configuration: dict[str, Any], name: str) -> bool | None:
    """A form's true or false; None where it says neither. Raises Failure for anything else."""
    value = configuration.get(name)
    if not is_said(value):
        return None
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise Failure("InvalidInput", f"{name} is {str(value)[:40]!r}.", f"Set {name} to true or false.")
    return text == "true"


def _refuse_variant(configuration: dict[str, Any], pipeline: Pipeline) -> None:
    said = configuration.get(MODEL_VARIANT)
    if not is_said(said):
        return
    plain = str(said).strip().lower().replace("_", "-").removeprefix("nvidia-").removeprefix("cosmos3-")
    if plain != variant(pipeline):
        raise Failure(
            "InvalidInput",
            f"{MODEL_VARIANT} is {str(said)[:40]!r}, but {pipeline.id} runs {pipeline.model}.",
            f"Set {MODEL_VARIANT} to {variant(pipeline)!r} or leave it out, or run the workflow of the other pipeline.",
        )


def _by_our_names(source: dict[str, Any]) -> dict[str, Any]:
    said = canonical(
        {PARAMETERS.get(name, name): value for name, value in source.items() if name not in _WRITTEN_APART}
    )
    hint, path, weight = (source.get(key) for key in (CONTROL_TYPE, CONTROL_PATH, CONTROL_WEIGHT))
    if hint is None:
        if path is not None or weight is not None:
            raise ValueError(f"{CONTROL_TYPE}: is missing beside {CONTROL_PATH} or {CONTROL_WEIGHT}")
        return said
    return {"mode": "transfer", "controls": _controls(str(hint), path, weight), **said}


def _controls(hints: str, path: Any, weight: Any) -> dict[str, dict[str, str]]:
    """Several are separated by commas, and so are their paths and weights, in the same order; one may be blank."""
    names = [name.strip().lower() for name in hints.split(",")]
    controls: dict[str, dict[str, str]] = {name: {} for name in names}
    for key, field, given in ((CONTROL_PATH, "path", path), (CONTROL_WEIGHT, "weight", weight)):
        values = [] if given is None else [value.strip() for value in str(given).split(",")]
        if len(values) > len(names):
            raise ValueError(f"{key}: has {len(values)} values for {len(names)} of {CONTROL_TYPE}")
        for name, value in zip(names, values, strict=False):
            if value:
                controls[name][field] = value
    return controls
