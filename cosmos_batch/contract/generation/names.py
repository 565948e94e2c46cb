"""Other names for the same things: those of the seed, of NVIDIA's engines and of their cookbooks."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from pydantic.alias_generators import to_camel

from cosmos_batch.contract.generation.actions import VIEW_POINTS, read_domain
from cosmos_batch.contract.generation.controls import HINTS
from cosmos_batch.contract.generation.modes import read_mode
from cosmos_batch.contract.generation.sizes import Size, tier_around

_OTHER_NAMES = {
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
}
_CONTROL_NAMES = {
    "controlPath": "path",
    "controlWeight": "weight",
    "presetEdgeThreshold": "strength",
    "presetBlurStrength": "strength",
}


# Of vLLM-Omni's requests: what is no field of OpenAI's stands apart there.
_WITHIN = ("extraParams", "extraArgs")
_REFUSED = {
    "trueCfgScale": "is not how Cosmos 3 is guided; use guidanceScale",
    "soundDuration": "is always the video's; leave it out",
}

# What is read and becomes something else, or is refused.
ALSO_READ = ("size", *_WITHIN, *_REFUSED, *HINTS)


def own_name(name: str) -> str:
    """Our name of what may be called otherwise, in camelCase."""
    own = to_camel(name) if "_" in name else name
    return _OTHER_NAMES.get(own, own)


def canonical(said: dict[str, Any]) -> dict[str, Any]:
    """The same by our names: camelCase, one name for each thing, values as ours are written. Raises ValueError."""
    found: dict[str, Any] = {}
    for name, value in _flat(said):
        own = own_name(name)
        if own in _REFUSED:
            raise ValueError(f"{name}: {_REFUSED[own]}")
        if own == "n":
            _refuse_several(value)
            continue
        value = _READ[own](value) if own in _READ else value
        if own in found and found[own] != value:
            raise ValueError(f"{own}: is said twice, as {found[own]!r} and, by the name {name}, as {value!r}")
        found[own] = value
    return _with_size(_with_controls(found))


def _flat(said: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in said.items():
        if own_name(name) not in _WITHIN:
            yield name, value
            continue
        within = _json(value)
        if not isinstance(within, dict):
            raise ValueError(f"{name}: is not a JSON object")
        yield from within.items()


def _json(value: Any) -> Any:
    """Of a form, where objects are text."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return None


def _refuse_several(n: Any) -> None:
    if n not in (1, "1"):
        raise ValueError(f"n: is {n!r}, and a request makes one; send one for each")


def _with_controls(said: dict[str, Any]) -> dict[str, Any]:
    """`{"edge": {"control_path": ...}}` as `{"controls": {"edge": {"path": ...}}}`."""
    beside = {hint: said[hint] for hint in HINTS if hint in said}
    within = said.get("controls")
    if not beside and not isinstance(within, dict):
        return said
    controls = {**(within if isinstance(within, dict) else {}), **beside}
    rest = {name: value for name, value in said.items() if name not in beside}
    return {**rest, "controls": {hint: _control(value) for hint, value in controls.items() if value is not False}}


def _control(value: Any) -> Any:
    """A hint as `true` (made from the input), as a path, or as an object."""
    if value is True or value is None:
        return {}
    if isinstance(value, str):
        return {"path": value}
    if not isinstance(value, dict):
        return value
    names = {name: to_camel(name) if "_" in name else name for name in value}
    return {_CONTROL_NAMES.get(names[name], name): one for name, one in value.items()}


def _with_size(said: dict[str, Any]) -> dict[str, Any]:
    """`"size": "1280x720"` as width and height."""
    width, cross, height = str(said.get("size", "")).lower().partition("x")
    if not (cross and width.strip().isdecimal() and height.strip().isdecimal()):
        return said
    rest = {name: value for name, value in said.items() if name != "size"}
    return {**rest, "width": int(width), "height": int(height)}


def _resolution(value: Any) -> Any:
    """720, "720" or "720p"; or the [height, width] of the seed's actions, which lie on the canvas of a tier."""
    if isinstance(value, list) and len(value) == 2 and all(type(side) is int for side in value):
        return tier_around(Size(value[1], value[0]))
    text = str(value).strip().lower()
    return f"{text}p" if text.isdecimal() else value


def _aspect_ratio(value: Any) -> Any:
    return value.strip().replace(",", ":").replace("/", ":") if isinstance(value, str) else value


def _view_point(value: Any) -> Any:
    """The seed says 0 for the first; of the others no number is documented."""
    return VIEW_POINTS[0] if value in (0, "0") and value is not False else value


def _text(read: Callable[[str], str]) -> Callable[[Any], Any]:
    return lambda value: read(value) if isinstance(value, str) else value


_READ: dict[str, Callable[[Any], Any]] = {
    "mode": _text(read_mode),
    "domainName": _text(read_domain),
    "resolution": _resolution,
    "aspectRatio": _aspect_ratio,
    "viewPoint": _view_point,
}
