"""The resources that the app creates for a VAMS deployment, and that it creates none without one."""

import json
import re
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from cosmos_batch.catalogue.formats import EXTENSIONS
from cosmos_batch.contract.environment import VamsEnvironment
from cosmos_batch.planning.configuration import ConfigError, parse_config
from infra.synth import synthesize
from tests.infra.assembly import Assembly, Resource, resolve
from tests.infra.examples import FOLDER, example

PIPELINE, IMPORT = "cosmos-reason2-2b", "vams-prod-importGlobalPipelineWorkflow"
ROLE = "arn:aws:iam::999999999999:role/cosmos-callbacks"


def configuration(**vams: Any) -> dict[str, Any]:
    """Return the example's configuration with changes to its block `vams`; None removes a field."""
    config: dict[str, Any] = json.loads((FOLDER / "vams.json").read_text(encoding="utf-8"))
    block = config["app"]["cosmosBatch"]["vams"]
    config["app"]["cosmosBatch"]["vams"] = {name: value for name, value in (block | vams).items() if value is not None}
    return config


@cache
def synthesized(changes: str) -> Assembly:
    outdir = Path(mkdtemp(prefix="cosmos-batch-vams-")) / "cdk.out"
    return Assembly(synthesize(parse_config(json.dumps(configuration(**json.loads(changes)))), outdir))


def with_vams(**changes: Any) -> Assembly:
    return synthesized(json.dumps(changes))


def registrations(assembly: Assembly) -> list[Resource]:
    resources = assembly.templates["Pipelines"]["Resources"].values()
    return [resource["Properties"] for resource in resources if resource["Type"] == "Custom::VamsRegistration"]


def listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def actions(assembly: Assembly, role: str) -> dict[str, list[str]]:
    """Return the resources of each action that a role allows, as texts."""
    resources: dict[str, list[str]] = {}
    for statement in assembly.statements(role):
        for action in listed(statement["Action"]):
            resources.setdefault(action, []).extend(resolve(resource) for resource in listed(statement["Resource"]))
    return resources


class TestRegistration:
    """Each pipeline that is configured for it has one custom resource that registers it."""

    def test_is_of_those_that_ask_for_it(self) -> None:
        [registration] = registrations(example("vams"))
        assert registration["Pipeline"] == PIPELINE
        assert registration["ImportFunction"] == IMPORT

    def test_comes_after_the_function_that_vams_shall_call(self) -> None:
        resources = example("vams").templates["Pipelines"]["Resources"].values()
        [registration] = [resource for resource in resources if resource["Type"] == "Custom::VamsRegistration"]
        assert any(name.startswith("FunctionsVamscosmosreason22b") for name in registration["DependsOn"])

    @pytest.mark.parametrize("name", ["reason-only", "everything"])
    def test_is_not_made_without_a_vams(self, name: str) -> None:
        assert registrations(example(name)) == []
        assert not example(name).properties("Pipelines", "Lambda::Function", "RegisterVams")

    def test_is_not_made_without_an_import_function(self) -> None:
        assert registrations(with_vams(importFunctionName=None)) == []

    def test_may_invoke_the_import_function_and_nothing_else(self) -> None:
        allowed = actions(example("vams"), "RegisterVams")
        assert {action for action in allowed if not action.startswith(("logs:", "xray:"))} == {"lambda:InvokeFunction"}
        [function] = allowed["lambda:InvokeFunction"]
        assert function.endswith(f":function:{IMPORT}")

    def test_of_2_5_has_the_documented_fields(self) -> None:
        [registration] = registrations(with_vams(version="2.5", orchestrationBusName=None, taskTimeoutSeconds=7200))
        fields = registration["Import"]
        assert json.loads(fields.pop("inputParameters")) == {"MODEL_TYPE": "reason", "MODEL_SIZE": "2B"}
        description = fields.pop("pipelineDescription")
        assert description and fields.pop("workflowDescription") == description
        assert fields == {
            "pipelineId": PIPELINE,
            "pipelineType": "standardFile",
            "pipelineExecutionType": "Lambda",
            "assetType": ".all",
            "outputType": ".json",
            "waitForCallback": "Enabled",
            "lambdaName": f"vams-{PIPELINE}-cosmos-batch",
            "taskTimeout": "7200",
            "taskHeartbeatTimeout": "",
            "workflowId": PIPELINE,
            "autoTriggerOnFileExtensionsUpload": ".mp4,.mov",
        }


class TestSchemaBundle:
    """Tests of the property `vamsSchema`, by which VAMS 2.6 registers a pipeline."""

    @pytest.fixture
    def properties(self) -> dict[str, str]:
        [registration] = registrations(example("vams"))
        sent: dict[str, str] = registration["Import"]
        return sent

    @pytest.fixture
    def bundle(self, properties: dict[str, str]) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(properties["inlineBundle"])
        return parsed

    def test_names_of_one_account_are_not_in_the_bundle_but_beside_it(self, properties: dict[str, str]) -> None:
        assert json.loads(properties["resourceOverrides"]) == {"lambdaName": f"vams-{PIPELINE}-cosmos-batch"}
        assert properties["triggerEnabled"] == "true"
        assert "arn:" not in properties["inlineBundle"] and "vams-prod" not in properties["inlineBundle"]

    def test_every_property_is_text(self, properties: dict[str, str]) -> None:
        """CloudFormation turns every scalar into text, and VAMS would take `"false"` for true."""
        assert {type(value) for value in properties.values()} == {str}

    def test_pipeline_workflow_and_templates_refer_to_each_other(self, bundle: dict[str, Any]) -> None:
        assert bundle.keys() == {"pipeline", "workflow", "templates"}
        [template] = bundle["templates"]
        [trigger] = bundle["workflow"]["triggers"]
        assert bundle["pipeline"]["pipelineId"] == bundle["workflow"]["workflowId"] == PIPELINE
        assert trigger["defaultTemplateIds"] == {f"GLOBAL:{PIPELINE}": template["templateId"]}
        assert template["isDefault"] is True

    def test_required_fields_are_there(self, bundle: dict[str, Any]) -> None:
        assert bundle["pipeline"]["pipelineName"] and bundle["workflow"]["workflowName"]
        execution = bundle["pipeline"]["executionConfig"]
        assert execution == {
            "executionType": "Lambda",
            "waitForCallback": "Enabled",
            "taskTimeout": "28800",
            "taskHeartbeatTimeout": "",
            "lambda": {},
        }

    def test_several_files_may_be_selected(self, bundle: dict[str, Any]) -> None:
        assert {bundle[part]["systemConfig"]["inputFileArity"] for part in ("pipeline", "workflow")} == {"multi"}

    def test_only_files_that_we_take_may_be_selected(self, bundle: dict[str, Any]) -> None:
        allowed = bundle["pipeline"]["systemConfig"]["inputFileFilters"]["allow"]
        assert allowed == [f"*{extension}" for extension in EXTENSIONS]

    def test_uploads_trigger_what_the_configuration_says(self, bundle: dict[str, Any]) -> None:
        [trigger] = bundle["workflow"]["triggers"]
        assert (trigger["triggerType"], trigger["enabled"]) == ("fileUpload", True)
        assert trigger["inputFileFilters"] == {"allow": ["*.mp4", "*.mov"], "exclude": []}

    def test_every_tag_of_a_template_is_declared(self, bundle: dict[str, Any]) -> None:
        [template] = bundle["templates"]
        body = json.loads(template["configBody"])
        [tag] = template["tagSchema"]
        assert tag["tagKey"] == "PROMPT"
        assert body == {"MODEL_TYPE": "reason", "MODEL_SIZE": "2B", "PROMPT": "{{PROMPT}}"}

    def test_a_form_that_is_left_blank_fills_every_tag(self, bundle: dict[str, Any]) -> None:
        """Development versions of 2.6 refused a run whose template has a tag without a value."""
        [template] = bundle["templates"]
        assert [(tag["required"], tag["default"]) for tag in template["tagSchema"]] == [(False, "")]


class TestPermissions:
    """The functions for VAMS have only the permissions that they need."""

    def test_vams_reads_manifests_where_vams_writes_them(self) -> None:
        allowed = actions(example("vams"), f"Vams{PIPELINE.replace('-', '')}")
        [*own, inputs] = allowed["s3:GetObject"]
        assert [place.partition("/")[2] for place in own] == ["runs/*/shards.json", "runs/*/shards/*"]
        assert inputs.endswith("vams-prod-assets/pipelines/workflowExecutionInputs/*")

    def test_the_function_may_read_no_manifest_for_2_5_or_without_a_vams(self) -> None:
        for assembly in (with_vams(version="2.5", orchestrationBusName=None), example("reason-only")):
            read = actions(assembly, "FunctionsVams")["s3:GetObject"]
            assert {place.partition("/")[2] for place in read} == {"runs/*/shards.json", "runs/*/shards/*"}

    def test_a_bucket_with_a_base_prefix_has_its_manifests_below_that(self) -> None:
        """Any of the buckets may be VAMS's default one; the function reads nothing else in them."""
        assembly = with_vams(buckets=["robots/vamsroot/", "vams-prod-assets/pipelines/"])
        places = actions(assembly, "FunctionsVamscosmosreason22b")["s3:GetObject"]
        assert [place.partition(":::")[2] for place in places if "/runs/" not in place] == [
            "robots/vamsroot/pipelines/workflowExecutionInputs/*",
            "vams-prod-assets/pipelines/workflowExecutionInputs/*",
        ]
        listed_prefixes = [
            statement["Condition"]["StringLike"]["s3:prefix"]
            for statement in assembly.statements("FunctionsVamscosmosreason22b")
            if "s3:ListBucket" in listed(statement["Action"])
        ]
        assert listed_prefixes == [
            "vamsroot/pipelines/workflowExecutionInputs/*",
            "pipelines/workflowExecutionInputs/*",
        ]

    def test_files_and_runs_below_a_base_prefix_are_read_and_written(self) -> None:
        assembly = with_vams(buckets=["robots/vamsroot/"])
        for role, action in (("FunctionsPlan", "s3:GetObject"), ("cosmosreason22bWorkerRole", "s3:PutObject")):
            assert any(place.endswith(":::robots/vamsroot/*") for place in actions(assembly, role)[action])

    def test_executions_are_registered_on_the_named_bus(self) -> None:
        [bus, *_] = actions(example("vams"), "FunctionsVamscosmosreason22b")["events:PutEvents"]
        assert bus.endswith(":event-bus/vams-prod-orchestration")
        assert "events:PutEvents" not in actions(with_vams(orchestrationBusName=None), "FunctionsVams")

    def test_files_of_vams_may_be_read_and_results_written(self) -> None:
        for role, action in (("FunctionsPlan", "s3:GetObject"), ("cosmosreason22bWorkerRole", "s3:PutObject")):
            assert any(place.endswith("vams-prod-assets/*") for place in actions(example("vams"), role)[action])

    def test_the_document_of_a_runs_errors_may_be_written_and_no_other(self) -> None:
        for role in ("FunctionsReport", "FunctionsFinishRun"):
            written = actions(with_vams(buckets=["robots/vamsroot/"]), role)["s3:PutObject"]
            ours = [place for place in written if ":::robots/" in place]
            assert [place.partition(":::")[2] for place in ours] == [
                "robots/vamsroot/pipelines/*/files/CosmosBatchErrors_*"
            ]
        for assembly, role in ((example("reason-only"), "FunctionsReport"), (example("vams"), "FunctionsVams")):
            written = actions(assembly, role).get("s3:PutObject", [])
            assert not [place for place in written if "CosmosBatchErrors" in place]

    def test_vams_writes_what_a_run_begins_with_and_none_of_its_results(self) -> None:
        written = actions(example("vams"), "FunctionsVamscosmosreason22b")["s3:PutObject"]
        keys = [place.partition("/")[2] for place in written]
        assert keys == ["requests/*", "runs/*/run.json", "runs/*/shards.json", "runs/*/shards/*"]

    def test_the_function_may_answer_a_retry_with_a_success(self) -> None:
        allowed = actions(example("vams"), "FunctionsVamscosmosreason22b")
        assert allowed["states:SendTaskSuccess"] == allowed["states:SendTaskFailure"]

    def test_uploads_to_buckets_of_vams_start_no_jobs(self) -> None:
        assert not example("vams").properties("Pipelines", "Events::Rule", "UploadIntake")
        assert "vams-prod-assets" not in json.dumps(example("vams").properties("Storage", "S3::Bucket"))

    def test_a_key_of_vams_is_used_through_s3_alone(self) -> None:
        key = "arn:aws:kms:us-east-1:123456789012:key/01234567-89ab-cdef-0123-456789abcdef"
        assembly = with_vams(kmsKeyArn=key)
        for role in ("FunctionsVamscosmosreason22b", "FunctionsReport", "FunctionsPlan", "cosmosreason22bWorkerRole"):
            [statement] = [one for one in assembly.statements(role) if key in listed(one["Resource"])]
            assert "kms:ViaService" in json.dumps(statement["Condition"])


class TestAnotherAccount:
    """Tests of `vams.callbackRoleArn`, for a VAMS in another account."""

    def test_tokens_are_answered_by_the_role_and_by_nothing_else(self) -> None:
        for role in ("FunctionsReport", "FunctionsVamscosmosreason22b"):
            allowed = actions(with_vams(callbackRoleArn=ROLE), role)
            assert allowed["sts:AssumeRole"] == [ROLE]
            assert not [action for action in allowed if action.startswith("states:SendTask")]

    def test_the_bus_is_there_too(self) -> None:
        assembly = with_vams(callbackRoleArn=ROLE)
        [function] = assembly.properties("Pipelines", "Lambda::Function", "FunctionsVamscosmosreason22b")
        bus = resolve(function["Environment"]["Variables"]["ORCHESTRATION_BUS"])
        assert bus.endswith(":999999999999:event-bus/vams-prod-orchestration")
        assert "events:PutEvents" not in actions(assembly, "FunctionsVamscosmosreason22b")

    def test_its_workflows_may_invoke_the_function(self) -> None:
        [permission, *_] = with_vams(callbackRoleArn=ROLE).properties("Pipelines", "Lambda::Permission", "Vams")
        assert "999999999999" in json.dumps(permission["Principal"])

    def test_a_session_begins_where_the_role_is(self) -> None:
        without = example("vams")
        assert "sts:AssumeRole" not in actions(without, "FunctionsReport")


class TestClocks:
    """Our timeouts lie within VAMS's timeout, and the state machine's timeout is the longest."""

    def test_the_function_knows_how_long_vams_waits(self) -> None:
        [function, *_] = with_vams(taskTimeoutSeconds=7200).properties("Pipelines", "Lambda::Function", "FunctionsVams")
        variables = {name: resolve(value) for name, value in function["Environment"]["Variables"].items()}
        assert VamsEnvironment.read(variables).task_timeout_seconds == 7200

    def test_the_state_machine_outlasts_it(self) -> None:
        machine = with_vams(taskTimeoutSeconds=864_000).one("Pipelines", "StepFunctions::StateMachine")
        timeouts = re.findall(r'"TimeoutSeconds":(\d+)', json.dumps(machine["DefinitionString"]).replace("\\", ""))
        assert max(map(int, timeouts)) >= 864_000 + 86_400


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"version": "2.4"}, "vams.version"),
        ({"version": None}, "vams.version"),
        ({"taskTimeoutSeconds": 60}, "vams.taskTimeoutSeconds"),
        ({"version": "2.5", "orchestrationBusName": None, "buckets": ["vams-prod-assets/robots/"]}, "pipelines/"),
        ({"buckets": ["vams-prod-assets", "vams-prod-assets/"]}, "twice"),
        ({"buckets": ["s3://vams-prod-assets"]}, "vams.buckets[0]"),
        ({"version": "2.5"}, "orchestrationBusName"),
        ({"callbackRoleArn": "cosmos-callbacks"}, "vams.callbackRoleArn"),
        ({"importFunctionName": "a:b"}, "vams.importFunctionName"),
        ({"importFunction": "a"}, "vams.importFunction"),
    ],
)
def test_a_wrong_block_is_refused_by_name(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named.replace("[", r"\[").replace(".", r"\.")):
        parse_config(json.dumps(configuration(**changes)))
