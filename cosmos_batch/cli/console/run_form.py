"""The form of a new run, made from the schemas of the parameters."""

from typing import Any

from pydantic import BaseModel

from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.console.new_run_records import FormField, NewRunForm, PipelineChoice, TaskChoice
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.tasks import TASKS

_KINDS = {"number": "number", "integer": "integer", "boolean": "switch", "string": "text"}
_NOT_IN_LIST = {"task"}  # the form has a field of its own for it
_FILES = {"actionPath", "path"}


def run_form(deployment: Deployment) -> NewRunForm:
    """Return the choices for a new run of this deployment."""
    pipelines = [pipeline for name in deployment.pipelines if (pipeline := pipeline_named(name)) is not None]
    return NewRunForm(
        pipelines=[PipelineChoice(id=one.id, model=one.model, surface=one.surface) for one in pipelines],
        tasks=[TaskChoice(name=task.name, example=task.example, medium=task.medium) for task in TASKS.values()],
        fields={"reasoner": form_fields(Parameters), "generator": form_fields(GenerationParameters)},
        roots=[f"s3://{root}{'' if root.endswith('/') else '/'}" for root in deployment.asset_roots],
    )


def form_fields(model: type[BaseModel]) -> list[FormField]:
    """Return the parameters of a model that a form can take; the command line takes the others too."""
    schema = model.model_json_schema()
    return _fields(schema, schema.get("$defs", {}))


def _fields(schema: dict[str, Any], definitions: dict[str, Any]) -> list[FormField]:
    properties: dict[str, Any] = schema["properties"]
    fields = (_field(name, one, definitions) for name, one in properties.items() if name not in _NOT_IN_LIST)
    return [field for field in fields if field is not None]


def _field(name: str, schema: dict[str, Any], definitions: dict[str, Any]) -> FormField | None:
    """Return the field of a parameter; None for one that no field can take."""
    value = next(one for one in schema.get("anyOf", [schema]) if one.get("type") != "null")
    help_text = str(schema.get("description", ""))
    if name in _FILES:
        return FormField(name=name, kind="file", help=help_text)
    if "enum" in value:
        return FormField(name=name, kind="choice", help=help_text, choices=[str(one) for one in value["enum"]])
    if value.get("type") == "array" and value["items"].get("type") == "integer":
        return FormField(name=name, kind="integers", help=help_text)
    if "propertyNames" in value:
        of_each = definitions[value["additionalProperties"]["$ref"].rpartition("/")[2]]
        keys = value["propertyNames"]["enum"]
        return FormField(name=name, kind="group", help=help_text, choices=keys, fields=_fields(of_each, definitions))
    kind: Any = _KINDS.get(str(value.get("type")))
    if kind is None:
        return None
    return FormField(
        name=name,
        kind=kind,
        help=help_text,
        minimum=value.get("minimum", value.get("exclusiveMinimum")),
        maximum=value.get("maximum", value.get("exclusiveMaximum")),
    )
