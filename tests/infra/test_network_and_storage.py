"""The traffic that the network allows, and the data that the stores keep."""

import pytest

from cosmos_batch.state.table import KEEP_SECONDS
from infra.stacks.storage import KEEP
from tests.infra.assembly import Assembly

BUCKETS = ["Assets", "State", "Models"]


def test_workers_have_private_subnets_in_three_zones_and_one_nat_gateway(assembly: Assembly) -> None:
    subnets = assembly.properties("Network", "EC2::Subnet", "Private")
    assert [subnet["MapPublicIpOnLaunch"] for subnet in subnets] == [False, False, False]
    zones = [subnet["AvailabilityZone"]["Fn::Select"][0] for subnet in subnets]
    assert zones == [0, 1, 2]
    assert len(assembly.resources("Network", "EC2::NatGateway")) == 1


def test_s3_is_reached_through_a_gateway_endpoint_in_the_route_table_of_each_worker_subnet(assembly: Assembly) -> None:
    endpoint = assembly.one("Network", "EC2::VPCEndpoint")
    assert endpoint["VpcEndpointType"] == "Gateway"
    assert [route_table["Ref"][:16] for route_table in endpoint["RouteTableIds"]] == ["VpcPrivateSubnet"] * 3


def test_mount_targets_are_reached_from_workers_on_2049_and_by_nothing_else(assembly: Assembly) -> None:
    rule = assembly.one("Network", "EC2::SecurityGroupIngress")
    assert (rule["FromPort"], rule["ToPort"], rule["IpProtocol"]) == (2049, 2049, "tcp")
    assert "WorkerGroup" in rule["SourceSecurityGroupId"]["Fn::GetAtt"][0]
    assert "FileSystemGroup" in rule["GroupId"]["Fn::GetAtt"][0]
    assert all("SecurityGroupIngress" not in group for group in assembly.properties("Network", "EC2::SecurityGroup"))
    targets = assembly.properties("Storage", "EFS::MountTarget")
    groups = [group["Fn::ImportValue"] for target in targets for group in target["SecurityGroups"]]
    assert len(targets) == 3 and all("FileSystemGroup" in group for group in groups)


@pytest.mark.parametrize("name", BUCKETS)
def test_a_bucket_is_private_and_encrypted_and_kept(assembly: Assembly, name: str) -> None:
    (bucket,) = [one for key, one in assembly.resources("Storage", "S3::Bucket").items() if key.startswith(name)]
    assert bucket["DeletionPolicy"] == bucket["UpdateReplacePolicy"] == "Retain"
    assert set(bucket["Properties"]["PublicAccessBlockConfiguration"].values()) == {True}
    assert "BucketEncryption" in bucket["Properties"]
    rules = bucket["Properties"]["LifecycleConfiguration"]["Rules"]
    assert {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}, "Status": "Enabled"} in rules
    (policy,) = assembly.properties("Storage", "S3::BucketPolicy", name)
    (denial,) = policy["PolicyDocument"]["Statement"]
    assert denial["Effect"] == "Deny" and denial["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_the_asset_bucket_keeps_versions_for_a_while_and_sends_events_to_eventbridge(assembly: Assembly) -> None:
    bucket = assembly.one("Storage", "S3::Bucket", "Assets")
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert bucket["NotificationConfiguration"] == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    assert any("NoncurrentVersionExpiration" in rule for rule in bucket["LifecycleConfiguration"]["Rules"])


def test_what_jobs_leave_in_the_state_bucket_expires_with_their_rows(assembly: Assembly) -> None:
    rules = assembly.one("Storage", "S3::Bucket", "State")["LifecycleConfiguration"]["Rules"]
    expiring = {rule["Prefix"]: rule["ExpirationInDays"] for rule in rules if "Prefix" in rule}
    assert expiring == {"jobs/": 30, "requests/": 30}
    assert KEEP.to_seconds() == KEEP_SECONDS


def test_the_state_table_is_kept_and_has_the_keys_of_its_rows(assembly: Assembly) -> None:
    (resource,) = assembly.resources("Storage", "DynamoDB::Table").values()
    table = resource["Properties"]
    assert resource["DeletionPolicy"] == "Retain"
    assert table["KeySchema"] == [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ]
    assert {attribute["AttributeType"] for attribute in table["AttributeDefinitions"]} == {"S"}
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expiresAt", "Enabled": True}
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


def test_the_model_cache_takes_tls_and_iam_only(assembly: Assembly) -> None:
    system = assembly.one("Storage", "EFS::FileSystem")
    assert system["Encrypted"] is True and system["ThroughputMode"] == "elastic"
    (statement,) = system["FileSystemPolicy"]["Statement"]
    assert statement["Effect"] == "Deny" and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    point = assembly.one("Storage", "EFS::AccessPoint")
    assert point["RootDirectory"]["Path"] == "/models"
    assert point["PosixUser"] == {"Uid": "1000", "Gid": "1000"}


def test_the_storage_stack_contains_only_what_stores_data(assembly: Assembly) -> None:
    kinds = {resource["Type"] for resource in assembly.templates["Storage"]["Resources"].values()}
    assert not kinds & {"AWS::Lambda::Function", "AWS::IAM::Role"}  # no custom resource of CDK's


def test_the_command_line_finds_what_it_needs_in_the_outputs(assembly: Assembly) -> None:
    outputs = assembly.templates["Storage"]["Outputs"].keys() | assembly.templates["Pipelines"]["Outputs"].keys()
    assert outputs >= {
        "AssetBucketName",
        "StateBucketName",
        "ModelBucketName",
        "StateTableName",
        "StateMachineArn",
        "Reason2BQueueUrl",
        "Reason2BParameter",
        "Reason8BQueueUrl",
        "Reason8BParameter",
        "Reason2BVamsFunctionName",
        "Reason8BVamsFunctionName",
    }


def test_unread_models_move_to_cheaper_storage_and_back_at_the_first_read(assembly: Assembly) -> None:
    policies = assembly.one("Storage", "EFS::FileSystem")["LifecyclePolicies"]
    assert policies == [{"TransitionToIA": "AFTER_30_DAYS"}, {"TransitionToPrimaryStorageClass": "AFTER_1_ACCESS"}]
