"""Simulated types that one call of their service creates, updates or deletes."""

from __future__ import annotations

import json

from cosmos_batch.local import backends
from cosmos_batch.local.cloudformation.simulated_type import Properties, SimulatedType, api_casing
from cosmos_batch.local.runtime import ACCOUNT, REGION, operator_client


def _put_secret(name: str, properties: Properties) -> tuple[str, dict[str, str]]:
    client, value = operator_client("secretsmanager"), properties.get("SecretString")
    if "GenerateSecretString" in properties:
        value = _generated_secret(properties["GenerateSecretString"])
    content = {"SecretString": value} if value is not None else {}
    try:
        arn = client.create_secret(Name=name, Description=properties.get("Description", ""), **content)["ARN"]
    except client.exceptions.ResourceExistsException:
        # A value that the template does not give was put by somebody else, and stays.
        arn = client.describe_secret(SecretId=name)["ARN"]
        if "SecretString" in properties:
            client.put_secret_value(SecretId=arn, SecretString=properties["SecretString"])
    return arn, {"Id": arn}


def _generated_secret(options: Properties) -> str:
    password = operator_client("secretsmanager").get_random_password(PasswordLength=options.get("PasswordLength", 32))
    if "GenerateStringKey" not in options:
        return password["RandomPassword"]
    template = json.loads(options["SecretStringTemplate"])
    return json.dumps({**template, options["GenerateStringKey"]: password["RandomPassword"]})


def _put_project(name: str, properties: Properties) -> tuple[str, dict[str, str]]:
    described = api_casing(properties)
    source = described["source"]
    if "buildSpec" in source:
        source["buildspec"] = source.pop("buildSpec")
    project = backends.builds().create_project(
        project_name=name,
        description=described.get("description"),
        project_source=source,
        artifacts=described["artifacts"],
        environment=described["environment"],
        service_role=described["serviceRole"],
        tags=described.get("tags", []),
        cache=described.get("cache"),
        timeout=described.get("timeoutInMinutes"),
        queued_timeout=described.get("queuedTimeoutInMinutes"),
        source_version=None,
        logs_config=described.get("logsConfig"),
        vpc_config=described.get("vpcConfig"),
    )
    return name, {"Arn": project["arn"]}


def _put_scheduling_policy(name: str, properties: Properties) -> tuple[str, dict[str, str]]:
    arn = f"arn:aws:batch:{REGION}:{ACCOUNT}:scheduling-policy/{name}"
    policy = api_casing(properties.get("FairsharePolicy", {}))
    if arn in backends.batch()._scheduling_policies:
        operator_client("batch").update_scheduling_policy(arn=arn, fairsharePolicy=policy)
    else:
        operator_client("batch").create_scheduling_policy(name=name, fairsharePolicy=policy)
    return arn, {"Arn": arn}


def _put_registry_scanning(_: str, properties: Properties) -> tuple[str, dict[str, str]]:
    operator_client("ecr").put_registry_scanning_configuration(**api_casing(properties))
    return ACCOUNT, {"RegistryId": ACCOUNT}


def _put_invoke_config(_: str, properties: Properties) -> tuple[str, dict[str, str]]:
    settings = {key: value for key, value in properties.items() if key not in ("FunctionName", "Qualifier")}
    function = backends.functions().get_function(properties["FunctionName"])
    function.event_invoke_config = []
    backends.functions().put_function_event_invoke_config(properties["FunctionName"], settings)
    return properties["FunctionName"], {}


def _remove_invoke_config(function_name: str) -> None:
    backends.functions().get_function(function_name).event_invoke_config = []


def _remove_registry_scanning(_: str) -> None:
    operator_client("ecr").put_registry_scanning_configuration(scanType="BASIC", rules=[])


def _put_permission(name: str, properties: Properties) -> tuple[str, dict[str, str]]:
    operator_client("lambda").add_permission(StatementId=name, **properties)
    return f"{properties['FunctionName']}|{name}", {}


def _remove_permission(physical_id: str) -> None:
    function, statement = physical_id.split("|")
    operator_client("lambda").remove_permission(FunctionName=function, StatementId=statement)


def _put_layer(name: str, properties: Properties) -> tuple[str, dict[str, str]]:
    published = operator_client("lambda").publish_layer_version(**{"LayerName": name, **properties})
    return published["LayerVersionArn"], {"LayerVersionArn": published["LayerVersionArn"]}


def _remove_layer(arn: str) -> None:
    name, version = arn.rsplit(":", 1)
    operator_client("lambda").delete_layer_version(LayerName=name.rsplit(":", 1)[1], VersionNumber=int(version))


def _put_version(_: str, properties: Properties) -> tuple[str, dict[str, str]]:
    published = operator_client("lambda").publish_version(**properties)
    return published["FunctionArn"], {"Version": published["Version"]}


def _remove_version(arn: str) -> None:
    function, version = arn.rsplit(":", 1)
    operator_client("lambda").delete_function(FunctionName=function, Qualifier=version)


def _put_key_alias(_: str, properties: Properties) -> tuple[str, dict[str, str]]:
    client = operator_client("kms")
    if properties["AliasName"] in [alias["AliasName"] for alias in client.list_aliases()["Aliases"]]:
        client.delete_alias(AliasName=properties["AliasName"])
    client.create_alias(**properties)
    return properties["AliasName"], {}


TYPES = {
    "AWS::Batch::SchedulingPolicy": SimulatedType(
        _put_scheduling_policy, lambda arn: operator_client("batch").delete_scheduling_policy(arn=arn)
    ),
    "AWS::CodeBuild::Project": SimulatedType(
        _put_project, lambda name: operator_client("codebuild").delete_project(name=name)
    ),
    "AWS::ECR::RegistryScanningConfiguration": SimulatedType(_put_registry_scanning, _remove_registry_scanning),
    "AWS::KMS::Alias": SimulatedType(_put_key_alias, lambda name: operator_client("kms").delete_alias(AliasName=name)),
    "AWS::Lambda::EventInvokeConfig": SimulatedType(_put_invoke_config, _remove_invoke_config),
    "AWS::Lambda::LayerVersion": SimulatedType(_put_layer, _remove_layer, replaced_on_change=True),
    "AWS::Lambda::Permission": SimulatedType(_put_permission, _remove_permission, replaced_on_change=True),
    "AWS::Lambda::Version": SimulatedType(_put_version, _remove_version, replaced_on_change=True),
    "AWS::SecretsManager::Secret": SimulatedType(
        _put_secret,
        lambda arn: operator_client("secretsmanager").delete_secret(SecretId=arn, ForceDeleteWithoutRecovery=True),
    ),
}

NAME_PROPERTIES = {
    "AWS::Batch::SchedulingPolicy": "Name",
    "AWS::CodeBuild::Project": "Name",
    "AWS::SecretsManager::Secret": "Name",
}
