"""The properties by which VAMS's import function registers a pipeline and its workflow, for each version of VAMS."""

import json
from dataclasses import dataclass
from typing import Any

from cosmos_batch.catalogue.formats import EXTENSIONS
from cosmos_batch.catalogue.generation import MODES, Mode, input_extensions
from cosmos_batch.contract.vams import VamsSettings
from cosmos_batch.planning.deployment import EnabledPipeline
from infra.constructs.vams_templates import Template, file_templates, model, question_template, text_templates

GLOBAL = "GLOBAL"  # the database of VAMS whose pipelines all databases may use
CATEGORY = "GenAI"


@dataclass(frozen=True)
class Registration:
    """A pipeline in VAMS, with a workflow of the same id. `extensions` are those of the files that it reads."""

    id: str
    name: str
    description: str
    extensions: tuple[str, ...]
    templates: list[Template]
    auto_trigger: list[str]
    reads_asset: bool = False

    @property
    def arity(self) -> str:
        """Return the number of input files. VAMS refuses files with `none`, and a run without files with `multi`."""
        return "multi" if self.extensions else "none"


def imports(enabled: EnabledPipeline, function_name: str, settings: VamsSettings) -> dict[str, dict[str, str]]:
    """Return a custom resource's properties for each registration, by its id.

    CloudFormation turns every value into text, so all of them are text here.
    """
    registered = _registrations(enabled)
    if settings.version == "2.5":  # 2.5 always sends a file
        return {registered[0].id: _fields(enabled, registered[0], function_name, settings)}
    return {
        registration.id: {
            "inlineBundle": json.dumps(schema_bundle(registration, settings)),
            "resourceOverrides": json.dumps({"lambdaName": function_name}),
            "triggerEnabled": json.dumps(bool(registration.auto_trigger)),
        }
        for registration in registered
    }


def schema_bundle(registration: Registration, settings: VamsSettings) -> dict[str, Any]:
    """Return VAMS 2.6's `vamsSchema`: its `pipeline.json`, `workflow.json` and `templates/*.json` in one object."""
    arity = {"inputFileArity": registration.arity}  # each of several files is a job of its own
    words = {"category": CATEGORY, "description": registration.description}
    return {
        "pipeline": {
            "pipelineId": registration.id,
            "pipelineName": registration.name,
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
                    "assetMetadata": registration.reads_asset,
                    "fileMetadata": bool(registration.extensions),
                    "fileAttributes": False,
                },
                "requireTemplate": False,
                "allowCustomTemplateOverride": True,
                "inputFileFilters": _filter(registration.extensions),
            },
        },
        "workflow": {
            "workflowId": registration.id,
            "workflowName": registration.name,
            **words,
            # Also where it is disabled: a registration without a trigger would leave an older trigger enabled.
            "triggers": [
                {
                    "triggerType": "fileUpload",
                    "inputFileFilters": _filter(registration.auto_trigger or registration.extensions),
                    "defaultTemplateIds": {f"{GLOBAL}:{registration.id}": registration.templates[0].id},
                    "enabled": bool(registration.auto_trigger),
                }
            ],
            "systemConfig": arity,
        },
        "templates": [template.as_vams() for template in registration.templates],
    }


def _registrations(enabled: EnabledPipeline) -> list[Registration]:
    if enabled.pipeline.surface == "reasoner":
        return [_reasoner(enabled)]
    modes = enabled.pipeline.modes
    file_modes = [mode for mode in modes if MODES[mode].inputs]
    text_modes = [mode for mode in modes if not MODES[mode].inputs]
    registrations = [_for_files(enabled, file_modes)] if file_modes else []
    if text_modes:
        registrations.append(_for_text(enabled, text_modes, "-text" if file_modes else ""))
    return registrations


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


def _for_files(enabled: EnabledPipeline, modes: list[Mode]) -> Registration:
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


def _for_text(enabled: EnabledPipeline, modes: list[Mode], suffix: str) -> Registration:
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
    """Return the properties that VAMS 2.5 takes, which are not nested."""
    makes_images = enabled.pipeline.surface == "generator" and enabled.pipeline.modes == ("t2i",)
    output_type = ".json" if enabled.pipeline.surface == "reasoner" else ".png" if makes_images else ".mp4"
    return {
        "pipelineId": registration.id,
        "pipelineDescription": registration.description,
        "pipelineType": "standardFile",
        "pipelineExecutionType": "Lambda",
        "assetType": ".all",
        "outputType": output_type,
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
