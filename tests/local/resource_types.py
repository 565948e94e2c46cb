"""A small template for each CloudFormation type, a change of it, and the value that boto3 reads before and after."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Clients = Callable[[str], Any]
Properties = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A type under test.

    ``read`` takes the clients and the physical id. It returns ``created`` at first and ``updated`` after ``change`` was
    applied to the properties; it raises or returns None when the resource is deleted.
    """

    name: str
    properties: Properties
    change: Properties
    read: Callable[[Clients, str], Any]
    created: Any
    updated: Any


def ref(name: str) -> dict[str, str]:
    return {"Ref": name}


def get(name: str, attribute: str = "Arn") -> dict[str, Any]:
    return {"Fn::GetAtt": [name, attribute]}


def policy(action: str, resource: Any = "*", **more: Any) -> Properties:
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": action, "Resource": resource, **more}]}


def _resource(type_name: str, **properties: Any) -> dict[str, Any]:
    return {"Type": type_name, "Properties": properties}


def _named(name: str) -> Properties:
    return {"Tags": [{"Key": "Name", "Value": name}]}


CODE = {"S3Bucket": "code", "S3Key": "layer.zip"}

# Resources to which the types under test refer.
AROUND: dict[str, dict[str, Any]] = {
    "Vpc": _resource("AWS::EC2::VPC", CidrBlock="10.0.0.0/16", **_named("vpc")),
    "Subnet": _resource("AWS::EC2::Subnet", VpcId=ref("Vpc"), CidrBlock="10.0.0.0/24", AvailabilityZone="us-east-1a"),
    "OtherVpc": _resource("AWS::EC2::VPC", CidrBlock="10.1.0.0/16", **_named("other")),
    "Routes": _resource("AWS::EC2::RouteTable", VpcId=ref("Vpc"), **_named("routes")),
    "OtherRoutes": _resource("AWS::EC2::RouteTable", VpcId=ref("Vpc"), **_named("other")),
    "Loose": _resource("AWS::EC2::InternetGateway", **_named("loose")),
    "Gateway": _resource("AWS::EC2::InternetGateway"),
    "Attached": _resource("AWS::EC2::VPCGatewayAttachment", VpcId=ref("Vpc"), InternetGatewayId=ref("Gateway")),
    "Address": _resource("AWS::EC2::EIP", Domain="vpc"),
    "Group": _resource("AWS::EC2::SecurityGroup", VpcId=ref("Vpc"), GroupDescription="workers", **_named("group")),
    "OtherGroup": _resource("AWS::EC2::SecurityGroup", VpcId=ref("Vpc"), GroupDescription="others"),
    "Files": _resource("AWS::EFS::FileSystem", Encrypted=True),
    "Bucket": _resource("AWS::S3::Bucket", BucketName="types-bucket"),
    "Queue": _resource("AWS::SQS::Queue", QueueName="types-queue"),
    "Topic": _resource("AWS::SNS::Topic", TopicName="types-topic"),
    "Key": _resource("AWS::KMS::Key", KeyPolicy=policy("kms:*", Principal={"AWS": "*"})),
    "OtherKey": _resource("AWS::KMS::Key", Description="other", KeyPolicy=policy("kms:*", Principal={"AWS": "*"})),
    "Role": _resource("AWS::IAM::Role", RoleName="types-role", AssumeRolePolicyDocument=policy("sts:AssumeRole")),
    "OtherRole": _resource("AWS::IAM::Role", Path="/other/", AssumeRolePolicyDocument=policy("sts:AssumeRole")),
    "Secret": _resource("AWS::SecretsManager::Secret", Name="types-secret", SecretString="s"),
    "Logs": _resource("AWS::Logs::LogGroup"),
    "Function": _resource("AWS::Lambda::Function", FunctionName="types-function", Handler="index.handler",
                          Runtime="python3.12", Role=get("Role"),
                          Code=CODE),
    "Computing": _resource("AWS::Batch::ComputeEnvironment", Type="managed", ComputeResources={
        "Type": "EC2", "MaxvCpus": 4, "Subnets": [ref("Subnet")], "SecurityGroupIds": [ref("Group")],
        "InstanceRole": get("Profile"), "InstanceTypes": ["g6e.xlarge"]}),
    "Profile": _resource("AWS::IAM::InstanceProfile", Roles=[ref("Role")]),
}  # fmt: skip


def _name(described: dict[str, Any]) -> str:
    return next(tag["Value"] for tag in described["Tags"] if tag["Key"] == "Name")


def _named_type(name: str, properties: Properties, read: Callable[[Clients, str], Any]) -> Case:
    """Return the case of a type whose Name tag is changed."""
    return Case(name, {**properties, **_named("a")}, _named("b"), lambda c, i: _name(read(c, i)), "a", "b")


def _document(policy: Any) -> Any:
    """Return the first action of a policy."""
    return (json.loads(policy) if isinstance(policy, str) else policy)["Statement"][0]["Action"]


def _alive(described: list[dict[str, Any]]) -> dict[str, Any]:
    return next(resource for resource in described if resource.get("State", "available") not in ("deleted", "deleting"))


def _association(clients: Clients, association_id: str) -> str:
    """Return the destination of the first route that a subnet's association leads to."""
    tables = clients("ec2").describe_route_tables()["RouteTables"]
    [table] = [
        table
        for table in tables
        if association_id in [association["RouteTableAssociationId"] for association in table["Associations"]]
    ]
    return _name(table)


def _route(clients: Clients, _: str) -> str:
    tables = clients("ec2").describe_route_tables(Filters=[{"Name": "tag:Name", "Values": ["routes"]}])["RouteTables"]
    [route] = [route for table in tables for route in table["Routes"] if route.get("GatewayId", "").startswith("igw-")]
    return route["DestinationCidrBlock"]


def _ingress(clients: Clients, _: str) -> int:
    groups = clients("ec2").describe_security_groups(Filters=[{"Name": "tag:Name", "Values": ["group"]}])
    return groups["SecurityGroups"][0]["IpPermissions"][0]["FromPort"]


def _topic_policy(clients: Clients, _: str) -> str | None:
    [topic] = [arn["TopicArn"] for arn in clients("sns").list_topics()["Topics"] if "types-topic" in arn["TopicArn"]]
    action = _document(clients("sns").get_topic_attributes(TopicArn=topic)["Attributes"]["Policy"])
    return action if isinstance(action, str) else None  # A topic's own policy has a list.


def _scanning(clients: Clients, _: str) -> str | None:
    configuration = clients("ecr").get_registry_scanning_configuration()["scanningConfiguration"]
    return configuration["rules"][0]["scanFrequency"] if configuration["rules"] else None


def _key(clients: Clients, key_id: str) -> str | None:
    described = clients("kms").describe_key(KeyId=key_id)["KeyMetadata"]
    return described["Description"] if described["Enabled"] else None


def _rules(frequency: str) -> list[dict[str, Any]]:
    return [{"ScanFrequency": frequency, "RepositoryFilters": [{"Filter": "*", "FilterType": "WILDCARD"}]}]


def _machine(state: str) -> str:
    return json.dumps({"StartAt": state, "States": {state: {"Type": "Succeed"}}})


def _mapping(clients: Clients, mapping_id: str) -> int:
    return clients("lambda").get_event_source_mapping(UUID=mapping_id)["BatchSize"]


def _statement(clients: Clients, _: str) -> str:
    return json.loads(clients("lambda").get_policy(FunctionName="types-function")["Policy"])["Statement"][0][
        "Principal"
    ]["Service"]


TYPES = [
    Case("AWS::Batch::ComputeEnvironment", AROUND["Computing"]["Properties"],
         {"ComputeResources": {**AROUND["Computing"]["Properties"]["ComputeResources"], "MaxvCpus": 8}},
         lambda c, i: c("batch").describe_compute_environments(computeEnvironments=[i])["computeEnvironments"][0]
         ["computeResources"]["maxvCpus"], 4, 8),
    Case("AWS::Batch::JobDefinition",
         {"Type": "container", "ContainerProperties": {"Image": "i", "Vcpus": 1, "Memory": 8},
          "JobDefinitionName": "d"},
         {"ContainerProperties": {"Image": "j", "Vcpus": 1, "Memory": 8}},
         lambda c, i: c("batch").describe_job_definitions(jobDefinitionName="d", status="ACTIVE")["jobDefinitions"][-1]
         ["containerProperties"]["image"], "i", "j"),
    Case("AWS::Batch::JobQueue",
         {"Priority": 1, "ComputeEnvironmentOrder": [{"Order": 1, "ComputeEnvironment": ref("Computing")}]},
         {"Priority": 2},
         lambda c, i: c("batch").describe_job_queues(jobQueues=[i])["jobQueues"][0]["priority"], 1, 2),
    Case("AWS::Batch::SchedulingPolicy", {"FairsharePolicy": {"ComputeReservation": 1}},
         {"FairsharePolicy": {"ComputeReservation": 2}},
         lambda c, i: c("batch").describe_scheduling_policies(arns=[i])["schedulingPolicies"][0]["fairsharePolicy"]
         ["computeReservation"], 1, 2),
    Case("AWS::Budgets::Budget",
         {"Budget": {"BudgetName": "b", "BudgetType": "COST", "TimeUnit": "MONTHLY",
                     "BudgetLimit": {"Amount": 10, "Unit": "USD"}},
          "NotificationsWithSubscribers": [{
              "Notification": {"NotificationType": "ACTUAL", "ComparisonOperator": "GREATER_THAN", "Threshold": 80},
              "Subscribers": [{"SubscriptionType": "EMAIL", "Address": "a@example.com"}]}]},
         {"Budget": {"BudgetName": "b", "BudgetType": "COST", "TimeUnit": "MONTHLY",
                     "BudgetLimit": {"Amount": 20, "Unit": "USD"}}},
         lambda c, i: float(c("budgets").describe_budget(AccountId="123456789012", BudgetName=i)["Budget"]
                            ["BudgetLimit"]["Amount"]), 10, 20),
    Case("AWS::CloudWatch::Alarm",
         {"MetricName": "m", "Namespace": "n", "EvaluationPeriods": 1, "Threshold": 1, "Period": 60,
          "ComparisonOperator": "GreaterThanThreshold", "Statistic": "Sum", "AlarmActions": [ref("Topic")]},
         {"Threshold": 2},
         lambda c, i: c("cloudwatch").describe_alarms(AlarmNames=[i])["MetricAlarms"][0]["Threshold"], 1, 2),
    Case("AWS::CloudWatch::Dashboard", {"DashboardBody": '{"widgets": []}'}, {"DashboardBody": '{"widgets": [1]}'},
         lambda c, i: c("cloudwatch").get_dashboard(DashboardName=i)["DashboardBody"],
         '{"widgets": []}', '{"widgets": [1]}'),
    Case("AWS::CodeBuild::Project",
         {"ServiceRole": get("Role"), "Artifacts": {"Type": "NO_ARTIFACTS"}, "Source": {"Type": "NO_SOURCE"},
          "Environment": {"Type": "LINUX_CONTAINER", "ComputeType": "BUILD_GENERAL1_SMALL", "Image": "i"},
          "TimeoutInMinutes": 10}, {"TimeoutInMinutes": 20},
         lambda c, i: c("codebuild").batch_get_projects(names=[i])["projects"][0]["timeoutInMinutes"], 10, 20),
    Case("AWS::DynamoDB::Table",
         {"BillingMode": "PAY_PER_REQUEST", "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
          "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
          "TimeToLiveSpecification": {"AttributeName": "one", "Enabled": True}},
         {"TimeToLiveSpecification": {"AttributeName": "two", "Enabled": True}},
         lambda c, i: c("dynamodb").describe_time_to_live(TableName=i)["TimeToLiveDescription"]["AttributeName"],
         "one", "two"),
    _named_type("AWS::EC2::EIP", {"Domain": "vpc"},
                lambda c, i: c("ec2").describe_addresses(PublicIps=[i])["Addresses"][0]),
    Case("AWS::EC2::FlowLog",
         {"ResourceId": ref("Vpc"), "ResourceType": "VPC", "TrafficType": "ALL", "LogGroupName": ref("Logs"),
          "DeliverLogsPermissionArn": get("Role")}, {"TrafficType": "REJECT"},
         lambda c, i: c("ec2").describe_flow_logs(FlowLogIds=[i])["FlowLogs"][0]["TrafficType"], "ALL", "REJECT"),
    _named_type("AWS::EC2::InternetGateway", {},
                lambda c, i: c("ec2").describe_internet_gateways(InternetGatewayIds=[i])["InternetGateways"][0]),
    Case("AWS::EC2::LaunchTemplate", {"LaunchTemplateData": {"UserData": {"Fn::Base64": "a"}}},
         {"LaunchTemplateData": {"UserData": {"Fn::Base64": "b"}}},
         lambda c, i: c("ec2").describe_launch_template_versions(LaunchTemplateId=i, Versions=["$Latest"])
         ["LaunchTemplateVersions"][0]["LaunchTemplateData"]["UserData"], "YQ==", "Yg=="),
    _named_type("AWS::EC2::NatGateway", {"AllocationId": get("Address", "AllocationId"), "SubnetId": ref("Subnet")},
                lambda c, i: _alive(c("ec2").describe_nat_gateways(NatGatewayIds=[i])["NatGateways"])),
    Case("AWS::EC2::Route", {"RouteTableId": ref("Routes"), "GatewayId": ref("Gateway"),
                             "DestinationCidrBlock": "0.0.0.0/0"}, {"DestinationCidrBlock": "8.8.0.0/16"},
         _route, "0.0.0.0/0", "8.8.0.0/16"),
    _named_type("AWS::EC2::RouteTable", {"VpcId": ref("Vpc")},
                lambda c, i: c("ec2").describe_route_tables(RouteTableIds=[i])["RouteTables"][0]),
    _named_type("AWS::EC2::SecurityGroup", {"VpcId": ref("Vpc"), "GroupDescription": "d"},
                lambda c, i: c("ec2").describe_security_groups(GroupIds=[i])["SecurityGroups"][0]),
    Case("AWS::EC2::SecurityGroupIngress",
         {"GroupId": get("Group", "GroupId"), "IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049,
          "SourceSecurityGroupId": get("Group", "GroupId")}, {"FromPort": 2048}, _ingress, 2049, 2048),
    Case("AWS::EC2::SecurityGroupEgress",
         {"GroupId": get("OtherGroup", "GroupId"), "IpProtocol": "tcp", "FromPort": 443, "ToPort": 443,
          "CidrIp": "10.0.0.0/8"}, {"FromPort": 442},
         lambda c, i: c("ec2").describe_security_group_rules(SecurityGroupRuleIds=[i.split("|")[1]])
         ["SecurityGroupRules"][0]["FromPort"], 443, 442),
    _named_type("AWS::EC2::Subnet", {"VpcId": ref("Vpc"), "CidrBlock": "10.0.9.0/24"},
                lambda c, i: c("ec2").describe_subnets(SubnetIds=[i])["Subnets"][0]),
    Case("AWS::EC2::SubnetRouteTableAssociation", {"SubnetId": ref("Subnet"), "RouteTableId": ref("Routes")},
         {"RouteTableId": ref("OtherRoutes")}, _association, "routes", "other"),
    _named_type("AWS::EC2::VPC", {"CidrBlock": "10.9.0.0/16"},
                lambda c, i: c("ec2").describe_vpcs(VpcIds=[i])["Vpcs"][0]),
    Case("AWS::EC2::VPCEndpoint",
         {"VpcId": ref("Vpc"), "VpcEndpointType": "Gateway", "ServiceName": "com.amazonaws.us-east-1.s3",
          "RouteTableIds": [ref("Routes")], "PolicyDocument": policy("s3:GetObject")},
         {"PolicyDocument": policy("s3:*")},
         lambda c, i: _document(_alive(c("ec2").describe_vpc_endpoints(VpcEndpointIds=[i])["VpcEndpoints"])
                                ["PolicyDocument"]), "s3:GetObject", "s3:*"),
    Case("AWS::EC2::VPCGatewayAttachment", {"VpcId": ref("Vpc"), "InternetGatewayId": ref("Loose")},
         {"VpcId": ref("OtherVpc")},
         lambda c, i: _name(c("ec2").describe_vpcs(VpcIds=[c("ec2").describe_internet_gateways(
             Filters=[{"Name": "tag:Name", "Values": ["loose"]}])["InternetGateways"][0]["Attachments"][0]["VpcId"]])
             ["Vpcs"][0]), "vpc", "other"),
    Case("AWS::ECR::RegistryScanningConfiguration", {"ScanType": "BASIC", "Rules": _rules("SCAN_ON_PUSH")},
         {"Rules": _rules("MANUAL")}, _scanning, "SCAN_ON_PUSH", "MANUAL"),
    Case("AWS::ECR::Repository", {"ImageTagMutability": "MUTABLE"}, {"ImageTagMutability": "IMMUTABLE"},
         lambda c, i: c("ecr").describe_repositories(repositoryNames=[i])["repositories"][0]["imageTagMutability"],
         "MUTABLE", "IMMUTABLE"),
    Case("AWS::EFS::AccessPoint", {"FileSystemId": ref("Files"), "AccessPointTags": [{"Key": "Name", "Value": "a"}]},
         {"AccessPointTags": [{"Key": "Name", "Value": "b"}]},
         lambda c, i: _name(c("efs").describe_access_points(AccessPointId=i)["AccessPoints"][0]), "a", "b"),
    Case("AWS::EFS::FileSystem", {"FileSystemTags": [{"Key": "Name", "Value": "a"}]},
         {"FileSystemTags": [{"Key": "Name", "Value": "b"}]},
         lambda c, i: _name(c("efs").describe_file_systems(FileSystemId=i)["FileSystems"][0]), "a", "b"),
    Case("AWS::EFS::FileSystem", {"LifecyclePolicies": [{"TransitionToIA": "AFTER_30_DAYS"}]},
         {"LifecyclePolicies": [{"TransitionToIA": "AFTER_60_DAYS"}]},
         lambda c, i: c("efs").describe_lifecycle_configuration(FileSystemId=i)["LifecyclePolicies"][0][
             "TransitionToIA"], "AFTER_30_DAYS", "AFTER_60_DAYS"),
    Case("AWS::EFS::MountTarget", {"FileSystemId": ref("Files"), "SubnetId": ref("Subnet"),
                                   "SecurityGroups": [get("Group", "GroupId")]},
         {"SecurityGroups": [get("OtherGroup", "GroupId")]},
         lambda c, i: c("ec2").describe_security_groups(GroupIds=c("efs").describe_mount_target_security_groups(
             MountTargetId=i)["SecurityGroups"])["SecurityGroups"][0]["Description"], "workers", "others"),
    Case("AWS::Events::Rule", {"ScheduleExpression": "rate(1 day)", "State": "DISABLED"},
         {"ScheduleExpression": "rate(2 days)"},
         lambda c, i: c("events").describe_rule(Name=i)["ScheduleExpression"], "rate(1 day)", "rate(2 days)"),
    Case("AWS::IAM::InstanceProfile", {"Roles": [ref("Role")], "InstanceProfileName": "p"},
         {"Roles": [ref("OtherRole")]},
         lambda c, i: c("iam").get_instance_profile(InstanceProfileName=i)["InstanceProfile"]["Roles"][0]["Path"],
         "/", "/other/"),
    Case("AWS::IAM::ManagedPolicy", {"PolicyDocument": policy("sqs:SendMessage")}, {"PolicyDocument": policy("sqs:*")},
         lambda c, i: _document(c("iam").get_policy_version(PolicyArn=i, VersionId=c("iam").get_policy(PolicyArn=i)
                                ["Policy"]["DefaultVersionId"])["PolicyVersion"]["Document"]),
         "sqs:SendMessage", "sqs:*"),
    Case("AWS::IAM::Policy",
         {"PolicyName": "p", "Roles": ["types-role"], "PolicyDocument": policy("s3:GetObject")},
         {"PolicyDocument": policy("s3:*")},
         lambda c, i: _document(c("iam").get_role_policy(RoleName="types-role", PolicyName="p")["PolicyDocument"]),
         "s3:GetObject", "s3:*"),
    Case("AWS::IAM::Role", {"AssumeRolePolicyDocument": policy("sts:AssumeRole"), "MaxSessionDuration": 3600,
                            "Policies": [{"PolicyName": "p", "PolicyDocument": policy("a:B")}]},
         {"Policies": [{"PolicyName": "p", "PolicyDocument": policy("a:C")}]},
         lambda c, i: _document(c("iam").get_role_policy(RoleName=i, PolicyName="p")["PolicyDocument"]), "a:B", "a:C"),
    Case("AWS::KMS::Alias", {"AliasName": "alias/types", "TargetKeyId": ref("Key")}, {"TargetKeyId": ref("OtherKey")},
         lambda c, i: c("kms").describe_key(KeyId=next(alias["TargetKeyId"] for alias in c("kms").list_aliases()
                                            ["Aliases"] if alias["AliasName"] == i))["KeyMetadata"]["Description"],
         "", "other"),
    Case("AWS::KMS::Key", {"KeyPolicy": policy("kms:*", Principal={"AWS": "*"}), "Description": "a"},
         {"Description": "b"}, _key, "a", "b"),
    Case("AWS::Lambda::EventInvokeConfig",
         {"FunctionName": ref("Function"), "Qualifier": "$LATEST", "MaximumRetryAttempts": 0},
         {"MaximumRetryAttempts": 1},
         lambda c, i: c("lambda").get_function_event_invoke_config(FunctionName="types-function")
         ["MaximumRetryAttempts"], 0, 1),
    Case("AWS::Lambda::EventSourceMapping",
         {"FunctionName": ref("Function"), "EventSourceArn": get("Queue"), "BatchSize": 1},
         {"BatchSize": 2}, _mapping, 1, 2),
    Case("AWS::Lambda::Function", {**AROUND["Function"]["Properties"], "FunctionName": "tested", "Timeout": 1},
         {"Timeout": 2},
         lambda c, i: c("lambda").get_function(FunctionName=i)["Configuration"]["Timeout"], 1, 2),
    Case("AWS::Lambda::LayerVersion", {"LayerName": "types", "Description": "a", "Content": CODE},
         {"Description": "b"},
         lambda c, i: c("lambda").list_layer_versions(LayerName="types")["LayerVersions"][0]["Description"], "a", "b"),
    Case("AWS::Lambda::Permission", {"FunctionName": get("Function"), "Action": "lambda:InvokeFunction",
                                     "Principal": "events.amazonaws.com"}, {"Principal": "s3.amazonaws.com"},
         _statement, "events.amazonaws.com", "s3.amazonaws.com"),
    Case("AWS::Lambda::Version", {"FunctionName": ref("Function"), "Description": "a"}, {"Description": "b"},
         lambda c, i: c("lambda").list_versions_by_function(FunctionName="types-function")["Versions"][1]
         ["Description"], "a", "b"),
    Case("AWS::Logs::LogGroup", {"LogGroupName": "types", "RetentionInDays": 1}, {"RetentionInDays": 3},
         lambda c, i: c("logs").describe_log_groups(logGroupNamePrefix="types")["logGroups"][0]
         ["retentionInDays"], 1, 3),
    Case("AWS::Logs::MetricFilter",
         {"LogGroupName": ref("Logs"), "FilterName": "f", "FilterPattern": "a",
          "MetricTransformations": [{"MetricName": "m", "MetricNamespace": "n", "MetricValue": "1"}]},
         {"FilterPattern": "b"},
         lambda c, i: c("logs").describe_metric_filters(filterNamePrefix="f")["metricFilters"][0]
         ["filterPattern"], "a", "b"),
    Case("AWS::Logs::ResourcePolicy", {"PolicyName": "types", "PolicyDocument": json.dumps(policy("logs:A"))},
         {"PolicyDocument": json.dumps(policy("logs:B"))},
         lambda c, i: next(_document(policy["policyDocument"]) for policy in c("logs").describe_resource_policies()
                           ["resourcePolicies"] if policy["policyName"] == "types"), "logs:A", "logs:B"),
    Case("AWS::S3::Bucket", {"VersioningConfiguration": {"Status": "Enabled"}},
         {"VersioningConfiguration": {"Status": "Suspended"}},
         lambda c, i: c("s3").get_bucket_versioning(Bucket=i)["Status"], "Enabled", "Suspended"),
    Case("AWS::S3::BucketPolicy",
         {"Bucket": ref("Bucket"), "PolicyDocument": policy("s3:A", Principal="*", Effect="Deny")},
         {"PolicyDocument": policy("s3:B", Principal="*", Effect="Deny")},
         lambda c, i: _document(c("s3").get_bucket_policy(Bucket="types-bucket")["Policy"]), "s3:A", "s3:B"),
    Case("AWS::SecretsManager::ResourcePolicy",
         {"SecretId": ref("Secret"), "ResourcePolicy": policy("secretsmanager:A", Principal="*")},
         {"ResourcePolicy": policy("secretsmanager:B", Principal="*")},
         lambda c, i: _document(c("secretsmanager").get_resource_policy(SecretId="types-secret")["ResourcePolicy"]),
         "secretsmanager:A", "secretsmanager:B"),
    Case("AWS::SecretsManager::Secret", {"SecretString": "a"}, {"SecretString": "b"},
         lambda c, i: c("secretsmanager").get_secret_value(SecretId=i)["SecretString"], "a", "b"),
    Case("AWS::SNS::Subscription", {"TopicArn": ref("Topic"), "Protocol": "email", "Endpoint": "a@example.com"},
         {"Endpoint": "b@example.com"},
         lambda c, i: next(subscription["Endpoint"] for subscription in c("sns").list_subscriptions()["Subscriptions"]
                           if subscription["Endpoint"].endswith("@example.com")), "a@example.com", "b@example.com"),
    Case("AWS::SNS::Topic", {"DisplayName": "a"}, {"DisplayName": "b"},
         lambda c, i: c("sns").get_topic_attributes(TopicArn=i)["Attributes"]["DisplayName"], "a", "b"),
    Case("AWS::SNS::TopicPolicy", {"Topics": [ref("Topic")], "PolicyDocument": policy("sns:Publish", Principal="*")},
         {"PolicyDocument": policy("sns:Subscribe", Principal="*")},
         _topic_policy, "sns:Publish", "sns:Subscribe"),
    Case("AWS::SQS::Queue", {"VisibilityTimeout": 1}, {"VisibilityTimeout": 2},
         lambda c, i: c("sqs").get_queue_attributes(QueueUrl=i, AttributeNames=["All"])["Attributes"]
         ["VisibilityTimeout"],
         "1", "2"),
    Case("AWS::SQS::QueuePolicy", {"Queues": [ref("Queue")], "PolicyDocument": policy("sqs:A", Principal="*")},
         {"PolicyDocument": policy("sqs:B", Principal="*")},
         lambda c, i: _document(c("sqs").get_queue_attributes(
             QueueUrl=c("sqs").get_queue_url(QueueName="types-queue")["QueueUrl"],
                                AttributeNames=["All"])["Attributes"]["Policy"]), "sqs:A", "sqs:B"),
    Case("AWS::SSM::Parameter", {"Type": "String", "Value": "a"}, {"Value": "b"},
         lambda c, i: c("ssm").get_parameter(Name=i)["Parameter"]["Value"], "a", "b"),
    Case("AWS::StepFunctions::StateMachine", {"RoleArn": get("Role"), "DefinitionString": _machine("a")},
         {"DefinitionString": _machine("b")},
         lambda c, i: json.loads(c("stepfunctions").describe_state_machine(stateMachineArn=i)["definition"])["StartAt"],
         "a", "b"),
]  # fmt: skip
