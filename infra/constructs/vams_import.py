"""What VAMS's import function is told of a pipeline and its workflow, in each version of VAMS."""

import json
from typing import Any

from cosmos_batch.contract.catalogue import EXTENSIONS
from cosmos_batch.contract.config import EnabledPipeline
from cosmos_batch.contract.vams import VamsSettings

GLOBAL = "GLOBAL"  # VAMS's database of what every database may use
CATEGORY = "GenAI"


def import_properties(enabled: EnabledPipeline, function_name: str, settings: VamsSettings) -> dict[str, str]:
    """Properties of a custom resource: CloudFormation makes text of each value, so each is text to begin with."""
    if settings.version == "2.5":
        return _fields(enabled, function_name, settings)
    return {
        "inlineBundle": json.dumps(schema_bundle(enabled, settings)),
        "resourceOverrides": json.dumps({"lambdaName": function_name}),
        "triggerEnabled": json.dumps(bool(enabled.auto_trigger)),
    }


def schema_bundle(enabled: EnabledPipeline, settings: VamsSettings) -> dict[str, Any]:
    """VAMS 2.6's `vamsSchema`: `pipeline.json`, `workflow.json` and `templates/*.json` in one. No account is in it."""
    pipeline, name = enabled.pipeline.id, _name(enabled)
    arity = {"inputFileArity": "multi"}  # each file is a job of its own
    template = {
        "templateId": pipeline,
        "templateName": f"{name}: describe or ask",
        "description": "The question that is asked of every file",
        "configFormat": "json",
        "configBody": json.dumps({**_model(enabled), "PROMPT": "{{PROMPT}}"}),
        "allowCustomEdit": True,
        "inputInstructions": "A file whose own metadata has COSMOS_REASON_PROMPT is asked that instead.",
        "isDefault": True,
        "tagSchema": [
            {
                "tagKey": "PROMPT",
                "type": "string",
                "required": False,
                "label": "Prompt",
                "description": "What to ask; blank: Caption the video in detail.",
            }
        ],
    }
    return {
        "pipeline": {
            "pipelineId": pipeline,
            "pipelineName": name,
            "category": CATEGORY,
            "description": _description(enabled),
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
                "metadataInputs": {"assetMetadata": False, "fileMetadata": True, "fileAttributes": False},
                "requireTemplate": False,
                "allowCustomTemplateOverride": True,
                "inputFileFilters": _filter(list(EXTENSIONS)),
            },
        },
        "workflow": {
            "workflowId": pipeline,
            "workflowName": name,
            "category": CATEGORY,
            "description": _description(enabled),
            # Always there, for a registration that lacks it would leave an older one enabled.
            "triggers": [
                {
                    "triggerType": "fileUpload",
                    "inputFileFilters": _filter(enabled.auto_trigger or list(EXTENSIONS)),
                    "defaultTemplateIds": {f"{GLOBAL}:{pipeline}": pipeline},
                    "enabled": bool(enabled.auto_trigger),
                }
            ],
            "systemConfig": arity,
        },
        "templates": [template],
    }


def _fields(enabled: EnabledPipeline, function_name: str, settings: VamsSettings) -> dict[str, str]:
    """As VAMS 2.5 takes them, flat."""
    pipeline, description = enabled.pipeline.id, _description(enabled)
    return {
        "pipelineId": pipeline,
        "pipelineDescription": description,
        "pipelineType": "standardFile",
        "pipelineExecutionType": "Lambda",
        "assetType": ".all",
        "outputType": ".json",
        "waitForCallback": "Enabled",
        "lambdaName": function_name,
        "taskTimeout": str(settings.task_timeout_seconds),
        "taskHeartbeatTimeout": "",
        "inputParameters": json.dumps(_model(enabled)),
        "workflowId": pipeline,
        "workflowDescription": description,
        "autoTriggerOnFileExtensionsUpload": ",".join(enabled.auto_trigger),
    }


def _model(enabled: EnabledPipeline) -> dict[str, str]:
    return {"MODEL_TYPE": "reason", "MODEL_SIZE": enabled.pipeline.model_size}


def _name(enabled: EnabledPipeline) -> str:
    return f"NVIDIA Cosmos Reason {enabled.pipeline.model_size}"


def _description(enabled: EnabledPipeline) -> str:
    return f"{_name(enabled)} - answers questions on videos and images, by Cosmos Batch"


def _filter(extensions: list[str]) -> dict[str, list[str]]:
    return {"allow": [f"*{extension}" for extension in extensions], "exclude": []}
