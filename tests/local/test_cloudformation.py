"""CloudFormation stacks: creation, updates, deletion, and failures."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.local.cloudformation.custom_resources import as_strings
from cosmos_batch.local.cloudformation.dependencies import in_dependency_order
from tests.local.support import Stack

# Puts an answer to its ResponseURL as cfnresponse does, with the request in its data.
CUSTOM = """
import json, urllib.request
def handler(event, context):
    wrong = event["ResourceProperties"].get("Fail")
    answer = {"Status": "FAILED" if wrong else "SUCCESS", "Reason": wrong or "", "PhysicalResourceId": "custom-1",
              "StackId": event["StackId"], "RequestId": event["RequestId"],
              "LogicalResourceId": event["LogicalResourceId"],
              "Data": {"Request": event["RequestType"] + json.dumps(event["ResourceProperties"]["Size"])}}
    body, headers = json.dumps(answer).encode(), {"content-type": ""}
    urllib.request.urlopen(urllib.request.Request(event["ResponseURL"], body, headers, method="PUT"))
"""


def message_of(failure: pytest.ExceptionInfo[ClientError]) -> str:
    return failure.value.response["Error"]["Message"]


def resource(type_name: str, **properties: Any) -> dict[str, Any]:
    return {"Type": type_name, "Properties": properties}


def get(name: str, attribute: str = "Arn") -> dict[str, Any]:
    return {"Fn::GetAtt": [name, attribute]}


EVERYTHING: dict[str, dict[str, Any]] = {
    "Alarm": resource("AWS::CloudWatch::Alarm", MetricName="m", Namespace="n", EvaluationPeriods=1,
                      ComparisonOperator="GreaterThanThreshold", Threshold=1, Period=60, Statistic="Sum",
                      AlarmActions=[{"Ref": "Topic"}]),
    "Dashboard": resource("AWS::CloudWatch::Dashboard", DashboardBody='{"widgets": []}'),
    "Topic": resource("AWS::SNS::Topic"),
    "Bucket": resource("AWS::S3::Bucket", VersioningConfiguration={"Status": "Enabled"},
                       BucketEncryption={"ServerSideEncryptionConfiguration": [
                           {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}),
    "BucketPolicy": resource("AWS::S3::BucketPolicy", Bucket={"Ref": "Bucket"}, PolicyDocument={
        "Statement": [{"Effect": "Deny", "Action": "s3:*", "Resource": "*", "Principal": "*",
                       "Condition": {"Bool": {"aws:SecureTransport": "false"}}}]}),
    "Table": resource("AWS::DynamoDB::Table", BillingMode="PAY_PER_REQUEST",
                      KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
                      AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
                      TimeToLiveSpecification={"AttributeName": "expires", "Enabled": True}),
    "Queue": resource("AWS::SQS::Queue", VisibilityTimeout=120),
    "QueuePolicy": resource("AWS::SQS::QueuePolicy", Queues=[{"Ref": "Queue"}], PolicyDocument={"Statement": []}),
    "Policy": resource("AWS::IAM::Policy", PolicyName="p", Roles=[{"Ref": "Role"}], PolicyDocument={
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": get("Bucket")}]}),
    "Managed": resource("AWS::IAM::ManagedPolicy", PolicyDocument={
        "Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sqs:*", "Resource": get("Queue")}]}),
    "Profile": resource("AWS::IAM::InstanceProfile", Roles=[{"Ref": "Role"}]),
    "Logs": resource("AWS::Logs::LogGroup", RetentionInDays=30),
    "Vpc": resource("AWS::EC2::VPC", CidrBlock="10.0.0.0/16"),
    "Subnet": resource("AWS::EC2::Subnet", VpcId={"Ref": "Vpc"}, CidrBlock="10.0.0.0/24",
                       AvailabilityZone="us-east-1a"),
    "Gateway": resource("AWS::EC2::InternetGateway"),
    "Attachment": resource("AWS::EC2::VPCGatewayAttachment", VpcId={"Ref": "Vpc"},
                           InternetGatewayId={"Ref": "Gateway"}),
    "Routes": resource("AWS::EC2::RouteTable", VpcId={"Ref": "Vpc"}),
    "Route": resource("AWS::EC2::Route", RouteTableId={"Ref": "Routes"}, DestinationCidrBlock="0.0.0.0/0",
                      GatewayId={"Ref": "Gateway"}) | {"DependsOn": ["Attachment"]},
    "Group": resource("AWS::EC2::SecurityGroup", VpcId={"Ref": "Vpc"}, GroupDescription="workers"),
    "Ingress": resource("AWS::EC2::SecurityGroupIngress", GroupId=get("Group", "GroupId"), IpProtocol="tcp",
                        FromPort=2049, ToPort=2049, SourceSecurityGroupId=get("Group", "GroupId")),
    "Endpoint": resource("AWS::EC2::VPCEndpoint", VpcId={"Ref": "Vpc"}, VpcEndpointType="Gateway",
                         ServiceName="com.amazonaws.us-east-1.s3", RouteTableIds=[{"Ref": "Routes"}]),
    "Launch": resource("AWS::EC2::LaunchTemplate", LaunchTemplateData={"UserData": {"Fn::Base64": "#!/bin/sh"}}),
    "Files": resource("AWS::EFS::FileSystem", Encrypted=True),
    "Target": resource("AWS::EFS::MountTarget", FileSystemId={"Ref": "Files"}, SubnetId={"Ref": "Subnet"},
                       SecurityGroups=[get("Group", "GroupId")]),
    "Repository": resource("AWS::ECR::Repository"),
    "Secret": resource("AWS::SecretsManager::Secret", Description="without a value"),
    "Parameter": resource("AWS::SSM::Parameter", Type="String", Value="v"),
    "Project": resource("AWS::CodeBuild::Project", ServiceRole=get("Role"), Artifacts={"Type": "NO_ARTIFACTS"},
                        Environment={"Type": "LINUX_CONTAINER", "ComputeType": "BUILD_GENERAL1_SMALL", "Image": "i"},
                        Source={"Type": "NO_SOURCE", "BuildSpec": "version: 0.2"}),
    "Metadata": resource("AWS::CDK::Metadata", Analytics="v2"),
}  # fmt: skip


def test_a_stack_of_many_types_is_created_and_deleted(cloud: LocalCloud, stack: Stack) -> None:
    function = {
        "Function": stack.function("def handler(event, context):\n    return 1\n"),
        "Version": resource("AWS::Lambda::Version", FunctionName={"Ref": "Function"}),
        "Permission": resource("AWS::Lambda::Permission", FunctionName=get("Function"), Action="lambda:InvokeFunction",
                               Principal="events.amazonaws.com"),
        "Invoke": resource("AWS::Lambda::EventInvokeConfig", FunctionName={"Ref": "Function"}, Qualifier="$LATEST",
                           MaximumRetryAttempts=0),
    }  # fmt: skip
    outputs = stack.put(
        {**EVERYTHING, **function},
        {
            "Bucket": {"Ref": "Bucket"},
            "Files": get("Files"),
            "Secret": {"Ref": "Secret"},
            "Repository": get("Repository", "RepositoryUri"),
            "Launch": get("Launch", "LatestVersionNumber"),
            "Function": {"Ref": "Function"},
        },
    )
    assert outputs["Files"].startswith("arn:aws:elasticfilesystem:")
    assert outputs["Repository"].startswith("123456789012.dkr.ecr.us-east-1.amazonaws.com/")
    s3 = cloud.client("s3")
    assert s3.get_bucket_versioning(Bucket=outputs["Bucket"])["Status"] == "Enabled"
    s3.put_object(Bucket=outputs["Bucket"], Key="policy-does-not-deny", Body=b"")
    s3.delete_object(Bucket=outputs["Bucket"], Key="policy-does-not-deny")
    secrets = cloud.client("secretsmanager")
    with pytest.raises(ClientError):
        secrets.get_secret_value(SecretId=outputs["Secret"])
    secrets.put_secret_value(SecretId=outputs["Secret"], SecretString="token")
    for version in s3.list_object_versions(Bucket=outputs["Bucket"]).get("Versions", []):
        s3.delete_object(Bucket=outputs["Bucket"], Key=version["Key"], VersionId=version["VersionId"])
    for marker in s3.list_object_versions(Bucket=outputs["Bucket"]).get("DeleteMarkers", []):
        s3.delete_object(Bucket=outputs["Bucket"], Key=marker["Key"], VersionId=marker["VersionId"])
    stack.delete()
    assert outputs["Bucket"] not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    with pytest.raises(ClientError):
        cloud.client("lambda").get_function(FunctionName=outputs["Function"])


def test_the_error_of_an_unknown_type_names_the_type(stack: Stack) -> None:
    with pytest.raises(ClientError) as failure:
        stack.put({"Satellite": resource("AWS::GroundStation::Config")})
    assert "AWS::GroundStation::Config" in message_of(failure)


def test_a_failure_names_the_resource_and_undoes_the_stack(cloud: LocalCloud, stack: Stack) -> None:
    queue = resource("AWS::SQS::Queue", QueueName=f"{stack.name}-q")
    bad = resource("AWS::SQS::Queue", QueueName="not a queue name!") | {"DependsOn": ["Queue"]}
    with pytest.raises(ClientError) as failure:
        stack.put({"Queue": queue, "Bad": bad})
    assert message_of(failure).startswith("Bad (AWS::SQS::Queue) could not be created: ")
    assert "QueueUrls" not in cloud.client("sqs").list_queues(QueueNamePrefix=f"{stack.name}-q")
    stack.put({"Queue": queue})


def test_a_changed_value_changes_the_resources_that_refer_to_it(cloud: LocalCloud, stack: Stack) -> None:
    code = "import os\ndef handler(event, context):\n    return os.environ['QUEUE']\n"
    function = stack.function(code, Environment={"Variables": {"QUEUE": {"Ref": "Queue"}}})
    outputs = {"F": {"Ref": "F"}}
    names = []
    for suffix in ("a", "b"):
        topic = resource("AWS::SNS::Topic", TopicName=f"{stack.name}-{suffix}")
        function["Properties"]["Environment"]["Variables"]["QUEUE"] = {"Ref": "Parameter"}
        parameter = resource("AWS::SSM::Parameter", Type="String", Name=f"/{stack.name}/{suffix}", Value="v")
        stack_outputs = stack.put({"Queue": topic, "Parameter": parameter, "F": function}, outputs)
        names.append(json.load(cloud.client("lambda").invoke(FunctionName=stack_outputs["F"])["Payload"]))
    assert names[0] != names[1]


def test_an_update_deletes_removed_resources_and_changes_attributes_of_a_queue(cloud: LocalCloud, stack: Stack) -> None:
    sqs = cloud.client("sqs")
    queues = {name: resource("AWS::SQS::Queue", QueueName=f"{stack.name}-{name}") for name in ("Keep", "Go")}
    url = stack.put(queues, {"Url": {"Ref": "Keep"}})["Url"]
    queues["Keep"]["Properties"] |= {"DelaySeconds": 7, "MessageRetentionPeriod": 864000}
    stack.put({"Keep": queues["Keep"]})
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert (attributes["DelaySeconds"], attributes["MessageRetentionPeriod"]) == ("7", "864000")
    assert [name.rsplit("-", 1)[1] for name in sqs.list_queues(QueueNamePrefix=stack.name)["QueueUrls"]] == ["Keep"]


def test_the_rows_of_a_table_survive_an_update(cloud: LocalCloud, stack: Stack) -> None:
    table = json.loads(json.dumps(EVERYTHING["Table"]))
    name = stack.put({"Table": table}, {"Name": {"Ref": "Table"}})["Name"]
    cloud.client("dynamodb").put_item(TableName=name, Item={"pk": {"S": "job"}})
    table["Properties"]["TimeToLiveSpecification"]["AttributeName"] = "gone"
    assert stack.put({"Table": table}, {"Name": {"Ref": "Table"}})["Name"] == name
    assert cloud.client("dynamodb").scan(TableName=name)["Count"] == 1
    described = cloud.client("dynamodb").describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    assert described == {"TimeToLiveStatus": "ENABLED", "AttributeName": "gone"}


def test_a_stack_imports_the_export_of_another(cloud: LocalCloud, stack: Stack) -> None:
    export = {"V": {"Value": {"Ref": "Topic"}, "Export": {"Name": f"{stack.name}:Topic"}}}
    stack.put({"Topic": resource("AWS::SNS::Topic")}, Outputs=export)
    importing = {"P": resource("AWS::SSM::Parameter", Type="String", Value={"Fn::ImportValue": f"{stack.name}:Topic"})}
    name = Stack(cloud).put(importing, {"Name": {"Ref": "P"}})["Name"]
    assert ":sns:" in cloud.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]


def test_an_export_in_use_is_neither_removed_nor_changed(cloud: LocalCloud, stack: Stack) -> None:
    def put(value: str | None) -> None:
        export = {"V": {"Value": {"Ref": "Topic"}, "Export": {"Name": f"{stack.name}:Topic"}}}
        topic = resource("AWS::SNS::Topic", TopicName=f"{stack.name}-{value}")
        stack.put({"Topic": topic}, Outputs={} if value is None else export)

    def topics() -> str:
        return json.dumps(cloud.client("sns").list_topics()["Topics"])

    importer = Stack(cloud)

    def take(value: object) -> None:
        importer.put({"P": resource("AWS::SSM::Parameter", Type="String", Value=value)})

    put("first")
    take({"Fn::ImportValue": f"{stack.name}:Topic"})
    for value, verb in ((None, "deleted"), ("second", "updated")):
        with pytest.raises(ClientError) as failure:
            put(value)
        expected = f"Export {stack.name}:Topic cannot be {verb} as it is in use by {importer.name}"
        assert message_of(failure) == expected
        assert f"{stack.name}-first" in topics() and f"{stack.name}-second" not in topics()
    with pytest.raises(ClientError, match="in use"):
        stack.delete()

    take("nothing")
    put("second")
    put(None)
    stack.delete()
    assert stack.name not in topics()


def test_a_stack_waits_for_a_custom_resource_and_reads_its_data(cloud: LocalCloud, stack: Stack) -> None:
    def put(size: int) -> str:
        custom = resource("Custom::Thing", ServiceToken=get("F"), Size=size)
        outputs = {"Request": get("Thing", "Request"), "Id": {"Ref": "Thing"}}
        answer = stack.put({"F": stack.function(CUSTOM), "Thing": custom}, outputs)
        assert answer["Id"] == "custom-1"
        return answer["Request"]

    assert put(1) == 'Create"1"'
    assert put(2) == 'Update"2"'


def test_the_reason_of_a_failed_custom_resource_is_reported(stack: Stack) -> None:
    custom = resource("Custom::Thing", ServiceToken=get("F"), Size=1, Fail="no capacity on Tuesdays")
    with pytest.raises(ClientError) as failure:
        stack.put({"F": stack.function(CUSTOM), "Thing": custom})
    assert "no capacity on Tuesdays" in message_of(failure)


def test_an_update_that_fails_leaves_the_stack_as_it_was(cloud: LocalCloud, stack: Stack) -> None:
    function = stack.function(CUSTOM)

    def parameter(name: str, value: str) -> dict[str, Any]:
        return resource("AWS::SSM::Parameter", Type="String", Name=f"/{stack.name}/{name}", Value=value)

    def put(value: str, fail: str = "", **new: Any) -> None:
        custom = resource("Custom::Thing", ServiceToken=get("F"), Size=1, Fail=fail) | {"DependsOn": ["P", *new]}
        stack.put({"F": function, "P": parameter("p", value), "Thing": custom, **new})

    put("before")
    with pytest.raises(ClientError) as failure:
        put("after", fail="not today", New=parameter("new", "new"))
    assert message_of(failure) == "Thing (Custom::Thing) could not be updated: not today"
    ssm = cloud.client("ssm")
    parameters = ssm.get_parameters_by_path(Path=f"/{stack.name}")["Parameters"]
    assert [(parameter["Name"], parameter["Value"]) for parameter in parameters] == [(f"/{stack.name}/p", "before")]
    put("again")
    assert ssm.get_parameter(Name=f"/{stack.name}/p")["Parameter"]["Value"] == "again"


def test_change_sets_create_update_and_fail_as_the_direct_operations_do(cloud: LocalCloud, stack: Stack) -> None:
    cloudformation = cloud.client("cloudformation")
    cloud.client("ssm").put_parameter(Name=f"/{stack.name}", Value="30", Type="String")
    version = {"Version": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": f"/{stack.name}"}}

    def put(kind: str, name: str, previous: bool = False) -> None:
        topic = resource("AWS::SNS::Topic", TopicName=name)
        template = {"Parameters": version, "Resources": {"Topic": topic}, "Outputs": {"Name": {
            "Value": get("Topic", "TopicName"), "Export": {"Name": f"{stack.name}:Name"}}}}  # fmt: skip
        parameters = [{"ParameterKey": "Version", "UsePreviousValue": True}] if previous else []
        names = {"StackName": stack.name, "ChangeSetName": "changes"}
        cloudformation.delete_change_set(**names)
        with pytest.raises(ClientError, match="ChangeSetNotFound"):
            cloudformation.describe_change_set(**names)
        cloudformation.create_change_set(
            **names, ChangeSetType=kind, TemplateBody=json.dumps(template), Parameters=parameters
        )
        cloudformation.execute_change_set(**names)

    def exported() -> str:
        exports = cloudformation.list_exports()["Exports"]
        return next(export["Value"] for export in exports if export["Name"] == f"{stack.name}:Name")

    with pytest.raises(ClientError, match=r"Topic \(AWS::SNS::Topic\) could not be created"):
        put("CREATE", "not a name!")
    put("CREATE", f"{stack.name}-a")
    assert exported() == f"{stack.name}-a"
    put("UPDATE", f"{stack.name}-b", previous=True)
    assert exported() == f"{stack.name}-b"


def test_a_repository_with_images_is_deleted_only_with_empty_on_delete(cloud: LocalCloud, stack: Stack) -> None:
    ecr = cloud.client("ecr")

    def put_with_an_image(empty: bool) -> str:
        name = stack.put({"R": resource("AWS::ECR::Repository", EmptyOnDelete=empty)}, {"R": {"Ref": "R"}})["R"]
        ecr.put_image(repositoryName=name, imageManifest='{"mediaType": "m"}', imageTag="1")
        return name

    gone = put_with_an_image(True)
    stack.put({})
    with pytest.raises(ClientError, match="RepositoryNotFound"):
        ecr.describe_repositories(repositoryNames=[gone])
    kept = put_with_an_image(False)
    with pytest.raises(ClientError, match="still contains images"):
        stack.put({})
    assert ecr.describe_repositories(repositoryNames=[kept])["repositories"]


def test_a_provider_is_called_until_it_is_complete(stack: Stack) -> None:
    on_event = "def handler(event, context):\n    return {'PhysicalResourceId': 'build-1', 'Data': {'A': '1'}}\n"
    complete = (
        "import os\ndef handler(event, context):\n"
        "    assert event['PhysicalResourceId'] == 'build-1'\n"
        "    os.environ['ASKED'] = os.environ.get('ASKED', '') + 'x'\n"
        "    return {'IsComplete': len(os.environ['ASKED']) > 1, 'Data': {'B': '2'}}\n"
    )
    environment = {"USER_ON_EVENT_FUNCTION_ARN": get("OnEvent"), "USER_IS_COMPLETE_FUNCTION_ARN": get("Complete")}
    framework = stack.function("", Runtime="nodejs20.x", Environment={"Variables": environment})
    resources = {
        "OnEvent": stack.function(on_event),
        "Complete": stack.function(complete),
        "Framework": framework,
        "Build": resource("Custom::Build", ServiceToken=get("Framework")),
    }
    outputs = stack.put(resources, {"A": get("Build", "A"), "B": get("Build", "B")})
    assert outputs == {"A": "1", "B": "2"}


def test_a_bucket_is_emptied_before_it_is_deleted(cloud: LocalCloud, stack: Stack) -> None:
    resources = {
        "Node": stack.function("", Runtime="nodejs20.x"),
        "Bucket": resource("AWS::S3::Bucket"),
        "Empty": resource("Custom::S3AutoDeleteObjects", ServiceToken=get("Node"), BucketName={"Ref": "Bucket"}),
    }
    bucket = stack.put(resources, {"Bucket": {"Ref": "Bucket"}})["Bucket"]
    s3 = cloud.client("s3")
    s3.put_object(Bucket=bucket, Key="left", Body=b"1")
    stack.delete()
    assert bucket not in [other["Name"] for other in s3.list_buckets()["Buckets"]]


def test_properties_of_custom_resources_are_text() -> None:
    assert as_strings({"a": True, "b": [1, {"c": 2.5}], "d": "x"}) == {"a": "true", "b": ["1", {"c": "2.5"}], "d": "x"}


def test_resources_are_ordered_after_their_references() -> None:
    resources = {
        "A": {"Properties": {"X": {"Fn::Sub": "${B.Arn}-${AWS::Region}"}}},
        "B": {"DependsOn": "C"},
        "C": {"Properties": [{"Fn::GetAtt": "D.Arn"}]},
        "D": {"Properties": {"Y": {"Fn::Join": ["", [{"Ref": "E"}]]}}},
        "E": {},
    }
    assert in_dependency_order(resources) == ["E", "D", "C", "B", "A"]


def test_an_output_of_another_stack_is_read_without_an_export(cloud: LocalCloud, stack: Stack) -> None:
    stack.put({"Topic": resource("AWS::SNS::Topic")}, {"Topic": get("Topic", "TopicName")})
    other = Stack(cloud)
    try:
        parameter = resource(
            "AWS::SSM::Parameter",
            Type="String",
            Value={"Fn::GetStackOutput": {"StackName": stack.name, "OutputName": "Topic"}},
        )
        name = other.put({"Parameter": parameter}, {"Name": {"Ref": "Parameter"}})["Name"]
        value = cloud.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
        assert stack.name in value
        parameter["Properties"]["Value"]["Fn::GetStackOutput"]["OutputName"] = "Missing"
        with pytest.raises(ClientError) as failure:
            other.put({"Parameter": parameter})
        assert f"Stack {stack.name} has no output Missing" in message_of(failure)
    finally:
        other.delete()
