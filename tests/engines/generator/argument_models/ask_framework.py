"""Validate samples with Cosmos Framework's own argument model, in an environment of the framework.

It reads `{"source": folder of the framework, "cases": {name: [sample, model config]}}` from standard input and writes
`{"python", "schema", "verdicts"}`: for each sample whether it was accepted, which values were changed or added, and its
size.
"""

import json
import os
import sys
import tempfile
import typing
from pathlib import Path
from typing import Any

import omegaconf
import typing_extensions

if not hasattr(typing, "override"):  # the framework needs Python 3.12; this is all it uses of it here
    typing.override = typing_extensions.override  # type: ignore[attr-defined]

_TEXTS = ("title", "description", "default")
_FILES = ("defaults.json", "actions.json", "given.png", "given.mp4", "given.avi")
_HINTS = ("edge", "blur", "depth", "seg", "wsm")


def main() -> None:
    """Read the samples from standard input, and write the verdicts to standard output."""
    order = json.load(sys.stdin)
    source = Path(order["source"]).absolute()
    sys.path.insert(0, str(source))
    output, sys.stdout = sys.stdout, sys.stderr  # it prints as it is imported
    from cosmos_framework.inference.args import OmniSampleOverrides

    configs = source / "cosmos_framework" / "inference" / "configs" / "model"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("given").mkdir()
        for name in (*_FILES, *(f"given_{hint}.mp4" for hint in _HINTS)):
            Path("given", name).write_text("{}" if name.endswith(".json") else "", encoding="utf-8")
        verdicts = {}
        for name, (sample, config) in order["cases"].items():
            model = omegaconf.OmegaConf.load(configs / f"{config}.yaml").model.config
            verdicts[name] = _verdict(OmniSampleOverrides, sample, model)
        os.chdir("/")
    json.dump(
        {
            "python": sys.version.split()[0],
            "schema": _without_texts(OmniSampleOverrides.model_json_schema()),
            "verdicts": verdicts,
        },
        output,
    )


def _verdict(overrides: Any, sample: dict[str, Any], model: Any) -> dict[str, Any]:
    try:
        validated = overrides.model_validate(sample)
        validated.output_dir = Path("given")
        arguments = validated.build_sample(model_config=model)
    except ValueError as error:  # pydantic's too
        return {"accepted": False, "error": " ".join(str(error).replace(str(Path.cwd()), "").split())[:300]}
    resolved = arguments.model_dump(mode="json", exclude_none=True)
    changed = {name: resolved.get(name) for name, value in sample.items() if not _is_same(value, resolved.get(name))}
    filled = sorted(resolved.keys() - sample.keys())
    size = None if arguments.model_mode.is_action else list(arguments.vision_size)
    return {"accepted": True, "changed": changed, "filled": filled, "size": size}


def _is_same(sent: Any, validated: Any) -> bool:
    """Return whether the framework kept a value; it makes paths absolute and drops the file of defaults."""
    if isinstance(sent, dict):
        return isinstance(validated, dict) and all(_is_same(value, validated.get(name)) for name, value in sent.items())
    if isinstance(sent, str) and sent.startswith("given/"):
        return validated is None or str(validated).endswith(sent)
    return bool(sent == validated)


def _without_texts(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_texts(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: {own: _without_texts(item) for own, item in value.items()}
        if name in ("properties", "$defs")
        else _without_texts(value)
        for name, value in schema.items()
        if name not in _TEXTS
    }


if __name__ == "__main__":
    main()
