"""Write `docs/configuration.md` from the descriptions of the configuration's fields. `make docs` runs this."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES, PRICES_AS_OF
from cosmos_batch.catalogue.pipelines import PIPELINES, Pipeline
from cosmos_batch.contract.config import Config
from cosmos_batch.contract.entries import GeneratorEntry
from cosmos_batch.planning.deployment import planned_pipeline

TARGET = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
_SIGNS = {Gt: (">", "gt"), Ge: ("≥", "ge"), Lt: ("<", "lt"), Le: ("≤", "le")}
_KINDS = {
    bool: "true or false",
    int: "integer",
    float: "number",
    str: "text",
    SecretStr: "text",
    dict: "object",
    Any: "any value",
}
_HEAD = """\
# Configuration

`config.json` is checked before anything is deployed. An invalid value is refused with a message that names the field,
and so is an unknown field. Fields may be left out unless they are marked as required. Complete files are
in [`examples/`](../examples). `make docs` writes this page from the models in `cosmos_batch/contract`.
"""


def page() -> str:
    """Return the whole page."""
    return "\n".join([_HEAD, *_blocks(Config, "", {}), *_pipelines(), *_instances()])


def _blocks(model: type[BaseModel], path: str, seen: dict[type[BaseModel], str], intro: str = "") -> Iterator[str]:
    """Return a table for a model, then one for each of its blocks; a model that was shown already is pointed to."""
    seen[model] = path
    fields = model.model_fields.values()
    rows = [row(field) for field in fields if _model_of(field) is None]
    if rows:
        head = "| field | type | default | what it is |"
        yield "\n".join([f"## `{path}`\n\n{intro}.\n", head, "| --- | --- | --- | --- |", *rows, ""])
    for field in fields:
        block = _model_of(field)
        if block is None:
            continue
        name = f"{path}.{field.alias}".lstrip(".") + ("[]" if _is_list(field) else "")
        if block in seen:
            yield f"## `{name}`\n\n{field.description}. Its fields are those of `{seen[block]}`.\n"
        else:
            yield from _blocks(block, name, seen, field.description or "")


def row(field: FieldInfo) -> str:
    """Return a field as a line of a table: its name, type, default and description."""
    cells = [f"`{field.alias}`", field_type(field), _default(field), field.description or ""]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _model_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the model that a field or the items of its list have; None for other types."""
    models = [part for part in _parts(field.annotation) if isinstance(part, type) and issubclass(part, BaseModel)]
    return models[0] if models else None


def _is_list(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is list


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part)


def field_type(field: FieldInfo) -> str:
    parts = list(_parts(field.annotation))
    literals = [value for part in parts if get_origin(part) is Literal for value in get_args(part)]
    kind = " or ".join(f"`{value}`" for value in literals) or _kind(parts)
    return f"list of {kind}" if any(list in (part, get_origin(part)) for part in parts) else kind + _limits(field)


def _kind(parts: list[Any]) -> str:
    return next(name for part in parts for known, name in _KINDS.items() if known in (part, get_origin(part)))


def _limits(field: FieldInfo) -> str:
    signs = [
        f"{sign} {getattr(limit, attribute)}"
        for kind, (sign, attribute) in _SIGNS.items()
        for limit in field.metadata
        if isinstance(limit, kind)
    ]
    return f", {', '.join(signs)}" if signs else ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or (isinstance(value, SecretStr) and not value.get_secret_value()):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if value not in ("", [], {}) else ""


def _pipelines() -> list[str]:
    """Return a table of the defaults that each pipeline has in the catalogue."""
    rows = [
        f"| `{one.config_key}` | `{one.id}` | {one.model} | {one.gpus_per_worker} x {one.min_gpu_memory_gb} GB | "
        f"{f'{one.context:,}' if one.context else ''} | {', '.join(one.instance_types)} | "
        f"{', '.join(one.fallback_instance_types)} |"
        for one in map(_as_deployed, PIPELINES)
    ]
    head = "| key | pipeline | model | GPUs of a worker | context | `instanceTypes` | `fallbackInstanceTypes` |"
    return ["## Defaults of the pipelines\n", head, "| --- | --- | --- | --- | --- | --- | --- |", *rows, ""]


def _as_deployed(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with the GPUs that its workers reserve; a generator's follow from its parallel plan."""
    return planned_pipeline(GeneratorEntry(), pipeline) if pipeline.surface == "generator" else pipeline


def _instances() -> list[str]:
    rows = [
        f"| {name} | {one.gpus} x {one.gpu} {one.gpu_memory_gb} GB | {one.vcpus} | {one.memory_gib} | "
        f"{one.dollars_per_hour:.2f} | {one.dollars_per_month:,.0f} |"
        for name, one in INSTANCE_TYPES.items()
    ]
    head = "| type | GPUs | vCPUs | GiB | $ an hour | $ a month |"
    return [f"## Instance types\n\nPrices: {PRICES_AS_OF}.\n", head, "| --- | --- | --- | --- | --- | --- |", *rows, ""]


if __name__ == "__main__":
    sys.exit(TARGET.write_text(page(), encoding="utf-8") and 0)
