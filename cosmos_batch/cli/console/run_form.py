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
_ELSEWHERE = {"task"}  # has a place of its own in the form
_FILES = {"actionPath"}  # files are named on the command line


def run_form(deployment: Deployment) -> NewRunForm:
    """Return what a run of this deployment can be made of."""
    found = [pipeline for name in deployment.pipelines if (pipeline := pipeline_named(name)) is not None]
    return NewRunForm(
        pipelines=[PipelineChoice(id=one.id, model=one.model, surface=one.surface) for one in found],
        tasks=[TaskChoice(name=task.name, example=task.example, medium=task.medium) for task in TASKS.values()],
        fields={"reasoner": form_fields(Parameters), "generator": form_fields(GenerationParameters)},
        roots=[f"s3://{root}{'' if root.endswith('/') else '/'}" for root in deployment.asset_roots],
    )


def form_fields(model: type[BaseModel]) -> list[FormField]:
    """Return the parameters of a model that a form can take: numbers, texts, choices and switches."""
    properties: dict[str, Any] = model.model_json_schema()["properties"]
    fields = (_field(name, schema) for name, schema in properties.items() if name not in _ELSEWHERE | _FILES)
    return [field for field in fields if field is not None]


def _field(name: str, schema: dict[str, Any]) -> FormField | None:
    """Return the field of a parameter; None for objects and lists, which the command line takes."""
    options = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
    value = options[0]
    help_text = str(schema.get("description", ""))
    if "enum" in value:
        return FormField(name=name, kind="choice", help=help_text, choices=[str(one) for one in value["enum"]])
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
