"""What VAMS's import function is told of a pipeline and its workflow, in each version of VAMS."""

import json
from dataclasses import dataclass
from typing import Any

from cosmos_batch.catalogue.formats import EXTENSIONS
from cosmos_batch.catalogue.generation import MODES, MODES_OF_PIPELINE, Mode, input_extensions
from cosmos_batch.contract.vams import VamsSettings
from cosmos_batch.planning.deployment import EnabledPipeline
from infra.constructs.vams_templates import Template, file_templates, model, question_template, text_templates

GLOBAL = "GLOBAL"  # VAMS's database of what every database may use
CATEGORY = "GenAI"


@dataclass(frozen=True)
class Registration:
    """A pipeline as VAMS knows it, with a workflow of the same id. `extensions` are of the files that it looks at."""

    id: str
    name: str
    description: str
    extensions: tuple[str, ...]
    templates: list[Template]
    auto_trigger: list[str]
    reads_asset: bool = False

    @property
    def arity(self) -> str:
        """VAMS refuses files with `none`, and their absence with `multi`: no pipeline has both."""
        return "multi" if self.extensions else "none"


def imports(enabled: EnabledPipeline, function_name: str, settings: VamsSettings) -> dict[str, dict[str, str]]:
    """Properties of a custom resource for each id: CloudFormation makes text of each value, so each is text."""
    registered = _registrations(enabled)
    if settings.version == "2.5":  # which sends a file whatever is asked
        return {registered[0].id: _fields(enabled, registered[0], function_name, settings)}
    return {
        one.id: {
            "inlineBundle": json.dumps(schema_bundle(one, settings)),
            "resourceOverrides": json.dumps({"lambdaName": function_name}),
            "triggerEnabled": json.dumps(bool(one.auto_trigger)),
        }
        for one in registered
    }


def schema_bundle(registration: Registration, settings: VamsSettings) -> dict[str, Any]:
    """VAMS 2.6's `vamsSchema`: `pipeline.json`, `workflow.json` and `templates/*.json` in one. No account is in it."""
    one, arity = registration, {"inputFileArity": registration.arity}  # of several files each is a job of its own
    words = {"category": CATEGORY, "description": one.description}
    return {
        "pipeline": {
            "pipelineId": one.id,
            "pipelineName": one.name,
            **words,
            "executionConfig": {
                "executionType": "Lambda",
                "waitForCallback": "Enabled",
                "taskTimeout": str(settings.task_timeout_seconds),
                "taskHeartbeatTimeout": "",
                "lambda": {},
            },
            "systemConfig": {
                **arity,
                "assetScope": {"wholeAsset": False},
                "metadataInputs": {
                    "assetMetadata": one.reads_asset,
                    "fileMetadata": bool(one.extensions),
                    "fileAttributes": False,
                },
                "requireTemplate": False,
                "allowCustomTemplateOverride": True,
                "inputFileFilters": _filter(one.extensions),
            },
        },
        "workflow": {
            "workflowId": one.id,
            "workflowName": one.name,
            **words,
            # Always there, for a registration that lacks it would leave an older one enabled.
            "triggers": [
                {
                    "triggerType": "fileUpload",
                    "inputFileFilters": _filter(one.auto_trigger or one.extensions),
                    "defaultTemplateIds": {f"{GLOBAL}:{one.id}": one.templates[0].id},
                    "enabled": bool(one.auto_trigger),
                }
            ],
            "systemConfig": arity,
        },
        "templates": [template.as_vams() for template in one.templates],
    }


def _registrations(enabled: EnabledPipeline) -> list[Registration]:
    if enabled.pipeline.surface == "reasoner":
        return [_reasoner(enabled)]
    modes = MODES_OF_PIPELINE[enabled.pipeline.id]
    of_files = [mode for mode in modes if MODES[mode].inputs]
    of_text = [mode for mode in modes if not MODES[mode].inputs]
    found = [_of_files(enabled, of_files)] if of_files else []
    return [*found, _of_text(enabled, of_text, "-text" if of_files else "")] if of_text else found


def _reasoner(enabled: EnabledPipeline) -> Registration:
    pipeline = enabled.pipeline
    name = f"NVIDIA Cosmos Reason {pipeline.model_size}"
    return Registration(
        pipeline.id,
        name,
        f"{name} - answers questions on videos and images, by Cosmos Batch",
        EXTENSIONS,
        [question_template(pipeline, name)],
        enabled.auto_trigger,
    )


def _of_files(enabled: EnabledPipeline, modes: list[Mode]) -> Registration:
    name = _generator(enabled)
    return Registration(
        enabled.pipeline.id,
        name,
        f"{name} - {_titles(modes)}, by Cosmos Batch",
        input_extensions(modes),
        file_templates(enabled.pipeline, modes),
        enabled.auto_trigger,
        reads_asset=True,
    )


def _of_text(enabled: EnabledPipeline, modes: list[Mode], suffix: str) -> Registration:
    name = _generator(enabled) + (", from text" if suffix else "")
    return Registration(
        enabled.pipeline.id + suffix,
        name,
        f"{name} - {_titles(modes)}, by Cosmos Batch",
        (),
        text_templates(enabled.pipeline, modes),
        [],
        reads_asset=True,
    )


def _generator(enabled: EnabledPipeline) -> str:
    return f"NVIDIA {enabled.model.rpartition('/')[2] if '/' in enabled.pipeline.model else enabled.pipeline.id}"


def _titles(modes: list[Mode]) -> str:
    return ", ".join(MODES[mode].title for mode in modes)


def _fields(
    enabled: EnabledPipeline, registration: Registration, function_name: str, settings: VamsSettings
) -> dict[str, str]:
    """As VAMS 2.5 takes them, flat."""
    makes_images = enabled.pipeline.surface == "generator" and MODES_OF_PIPELINE[enabled.pipeline.id] == ("t2i",)
    made = ".json" if enabled.pipeline.surface == "reasoner" else ".png" if makes_images else ".mp4"
    return {
        "pipelineId": registration.id,
        "pipelineDescription": registration.description,
        "pipelineType": "standardFile",
        "pipelineExecutionType": "Lambda",
        "assetType": ".all",
        "outputType": made,
        "waitForCallback": "Enabled",
        "lambdaName": function_name,
        "taskTimeout": str(settings.task_timeout_seconds),
        "taskHeartbeatTimeout": "",
        "inputParameters": json.dumps(model(enabled.pipeline)),
        "workflowId": registration.id,
        "workflowDescription": registration.description,
        "autoTriggerOnFileExtensionsUpload": ",".join(registration.auto_trigger),
    }


def _filter(extensions: list[str] | tuple[str, ...]) -> dict[str, list[str]]:
    return {"allow": [f"*{extension}" for extension in extensions], "exclude": []}
