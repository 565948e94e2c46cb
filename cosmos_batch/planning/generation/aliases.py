"""Read a generation's parameters by any of their names: ours, VAMS's, or those of NVIDIA's engines and cookbooks."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from cosmos_batch.catalogue.generation import DOMAINS, HINTS, MODES, SIZES, VIDEO_RESOLUTIONS, VIEW_POINTS, Mode, Size
from cosmos_batch.contract.error import Failure, explain
from cosmos_batch.contract.generation.parameters import NAMES, GenerationParameters

EXAMPLE = '{"prompt": "A robot pours water.", "mode": "t2v", "resolution": "480p"}'

# All names are compared in camelCase, so that `num_steps` and `numSteps` are the same.
_PARAMETER_ALIASES = {
    "modelMode": "mode",
    "taskMode": "mode",
    "actionMode": "mode",
    "numInferenceSteps": "steps",
    "numSteps": "steps",
    "guidance": "guidanceScale",
    "shift": "flowShift",
    "generateSound": "sound",
    "enableSound": "sound",
    "conditionFrameIndexesVision": "conditionFrames",
    "conditionVideoKeep": "conditionKeep",
    "numVideoFramesPerChunk": "framesPerChunk",
    "resolutionTier": "resolution",
    "imageSize": "resolution",
    "rawActions": "action",
    "addResolutionTemplate": "useResolutionTemplate",
    "addDurationTemplate": "useDurationTemplate",
    "maxFrames": "numFrames",
}
_CONTROL_ALIASES = {
    "controlPath": "path",
    "controlWeight": "weight",
    "presetEdgeThreshold": "strength",
    "presetBlurStrength": "strength",
}

# Cosmos Framework's names of modes, compared without what separates words.
_MODE_ALIASES: dict[str, Mode] = {
    "text2image": "t2i",
    "text2video": "t2v",
    "image2video": "i2v",
    "video2video": "v2v",
    "wam": "policy",
    "videotransfer": "transfer",
    **{name.replace("_", ""): name for name in MODES},
}

# People write short names, and Cosmos Framework has newer ones.
_DOMAIN_ALIASES = {
    "bridge": "bridge_orig_lerobot",
    "droid": "droid_lerobot",
    "franka": "robomind-franka",
    "franka-dual": "robomind-franka-dual",
    "ur": "robomind-ur",
    "embodiment_b": "galbot",
    "embodiment_c_gripper": "agibot_gear_gripper",
    "embodiment_c_gripper_ext": "agibot_gear_gripper_ext",
}

# Objects in which vLLM-Omni's requests contain the parameters that OpenAI's API does not have.
_NESTED = ("extraParams", "extraArgs")
_REFUSED = {
    "trueCfgScale": "does not guide Cosmos 3; use guidanceScale",
    "soundDuration": "is always the video's; leave it out",
}

# Settings of Cosmos Framework's samples that have one value here, in every engine. Another value is refused.
_FIXED: dict[str, Any] = {
    **{"numConditionalFrames": 1, "numFirstChunkConditionalFrames": 0, "shareVisionTemporalPositions": True},
    **{"emphasizeControlInPrompt": False, "showControlCondition": False, "showInput": False},
    **{"negativeMetadataMode": "none", "negativePromptKeepMetadata": False},
    **{"numOutputs": 1, "normalizeCfg": False, "sigmaMax": 80.0},
}
KNOWN_NAMES = (*NAMES, "prompt", "input", "pipeline", "output", "parameters", *HINTS, *_CONTROL_ALIASES.values())

# Parameters that may be written as JSON text, because a form or metadata contains only text.
_JSON_TEXT = ("negativePrompt", "action", "controls", "conditionFrames")


def read_generation_parameters(values: dict[str, Any]) -> GenerationParameters:
    """Return parameters that are written by any of their names, and as text where a form has only text.

    Raises Failure (InvalidInput) that names each wrong field.
    """
    try:
        values = by_our_names(values)
        parsed = {name: _parsed_or_text(values[name]) for name in _JSON_TEXT if isinstance(values.get(name), str)}
        return GenerationParameters.model_validate({**values, **parsed}, strict=False)
    except ValidationError as error:
        raise parameter_failure(explain(error, KNOWN_NAMES)) from error
    except ValueError as error:
        raise parameter_failure(str(error)) from error


def parameter_failure(problem: str) -> Failure:
    """Return the error of a request whose parameters cannot be read."""
    return Failure("InvalidInput", problem, f"A request looks like {EXAMPLE}")


def is_parameter(name: str) -> bool:
    """Return whether a name is a parameter's, or one that `by_our_names` replaces or refuses."""
    return our_name(name) in (*NAMES, "size", *_NESTED, *_REFUSED, *_FIXED, *HINTS)


def our_name(name: str) -> str:
    """Return our name of a parameter, in camelCase; a name that is no alias stays."""
    name = to_camel(name) if "_" in name else name
    return _PARAMETER_ALIASES.get(name, name)


def by_our_names(values: dict[str, Any]) -> dict[str, Any]:
    """Return the same parameters by our names, with our names of modes, domains and tiers as their values.

    Raises ValueError if a parameter is set twice to different values, or is one that Cosmos 3 does not have.
    """
    renamed: dict[str, Any] = {}
    for written, value in _flattened(values):
        name = our_name(written)
        if name in _REFUSED:
            raise ValueError(f"{written}: {_REFUSED[name]}")
        if name == "n":
            _refuse_several(value)
            continue
        if name in _FIXED:
            _refuse_another(written, value, _FIXED[name])
            continue
        value = _VALUE_READERS[name](value) if name in _VALUE_READERS else value
        if name in renamed and renamed[name] != value:
            raise ValueError(f"{name}: is set twice, to {renamed[name]!r} and, by the name {written}, to {value!r}")
        renamed[name] = value
    return _as_transfer(_with_size(_with_controls(renamed)))


def _flattened(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if our_name(name) not in _NESTED:
            yield name, value
            continue
        nested = _parsed_or_none(value)
        if not isinstance(nested, dict):
            raise ValueError(f"{name}: is not a JSON object")
        yield from nested.items()


def _parsed_or_none(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return None


def _parsed_or_text(text: str) -> Any:
    """Return the value of text that is a JSON array or object; any other text stays."""
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _refuse_several(n: Any) -> None:
    if n not in (1, "1"):
        raise ValueError(f"n: is {n!r}, and a request generates one result; send one request for each")


def _refuse_another(name: str, value: Any, fixed: Any) -> None:
    if str(value).lower() != str(fixed).lower() and value != fixed:
        raise ValueError(f"{name}: is {value!r}, and it is always {fixed!r} here; leave it out")


def _as_transfer(values: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a transfer with its mode: Cosmos Framework's samples say `video2video`, or nothing."""
    return {**values, "mode": "transfer"} if values.get("controls") and values.get("mode", "v2v") == "v2v" else values


def _with_controls(values: dict[str, Any]) -> dict[str, Any]:
    """Return `{"edge": {"control_path": ...}}` as `{"controls": {"edge": {"path": ...}}}`."""
    top_level = {hint: values[hint] for hint in HINTS if hint in values}
    controls = values.get("controls")
    if not top_level and not isinstance(controls, dict):
        return values
    controls = {**(controls if isinstance(controls, dict) else {}), **top_level}
    rest = {name: value for name, value in values.items() if name not in top_level}
    return {**rest, "controls": {hint: _control(value) for hint, value in controls.items() if value is not False}}


def _control(value: Any) -> Any:
    """Return the object of a control that is written as `true` (computed from the input), as a path or as an object."""
    if value is True or value is None:
        return {}
    if isinstance(value, str):
        return {"path": value}
    if not isinstance(value, dict):
        return value
    camel = {name: to_camel(name) if "_" in name else name for name in value}
    return {_CONTROL_ALIASES.get(camel[name], name): setting for name, setting in value.items()}


def _with_size(values: dict[str, Any]) -> dict[str, Any]:
    """Return `"size": "1280x720"` as width and height."""
    width, cross, height = str(values.get("size", "")).lower().partition("x")
    if not (cross and width.strip().isdecimal() and height.strip().isdecimal()):
        return values
    rest = {name: value for name, value in values.items() if name != "size"}
    return {**rest, "width": int(width), "height": int(height)}


def read_mode(name: str) -> str:
    """Return our name of a mode, for example of `text-to-video` or `wam`; an unknown name stays."""
    letters = re.sub(r"[^a-z0-9]", "", name.lower())
    spellings = (letters, letters.replace("to", "2"))
    return next((_MODE_ALIASES[spelling] for spelling in spellings if spelling in _MODE_ALIASES), name)


def read_domain(name: str) -> str:
    """Return our name of a domain; an unknown name stays."""
    lower = name.strip().lower()
    return _DOMAIN_ALIASES.get(lower, lower if lower in DOMAINS else name)


def _read_resolution(value: Any) -> Any:
    """Return the tier of 720, "720" or "720p", or of the [height, width] in VAMS's requests with actions."""
    if isinstance(value, list) and len(value) == 2 and all(type(side) is int for side in value):
        return tier_that_holds(Size(value[1], value[0]))
    text = str(value).strip().lower()
    return f"{text}p" if text.isdecimal() else value


def tier_that_holds(size: Size) -> str:
    """Return the smallest tier of which a size holds a whole picture; the largest tier of videos if none does."""
    for tier in VIDEO_RESOLUTIONS:
        if any(size.width <= canvas.width and size.height <= canvas.height for canvas in SIZES[tier].values()):
            return tier
    return VIDEO_RESOLUTIONS[-1]


def _read_aspect_ratio(value: Any) -> Any:
    return value.strip().replace(",", ":").replace("/", ":") if isinstance(value, str) else value


def _read_view_point(value: Any) -> Any:
    """Return the first view point for VAMS's 0; no other number is documented."""
    return VIEW_POINTS[0] if value in (0, "0") and value is not False else value


def _if_text(read: Callable[[str], str]) -> Callable[[Any], Any]:
    return lambda value: read(value) if isinstance(value, str) else value


_VALUE_READERS: dict[str, Callable[[Any], Any]] = {
    "mode": _if_text(read_mode),
    "domainName": _if_text(read_domain),
    "resolution": _read_resolution,
    "aspectRatio": _read_aspect_ratio,
    "viewPoint": _read_view_point,
}
