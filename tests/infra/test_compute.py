"""The instances that Batch starts, and the resources that a worker reserves."""

import json
from pathlib import Path

import pytest

from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.planning.configuration import parse_config
from cosmos_batch.planning.deployment import enabled_pipelines
from infra.constructs.gpu_hosts import SETUP
from infra.synth import synthesize
from tests.infra.assembly import REASONERS, SEED, Assembly, Resource, resolve
from tests.infra.examples import example

TYPES = {"cosmosreason22b": ["g6e.12xlarge", "g5.12xlarge"], "cosmosreason28b": ["g6e.12xlarge", "g6e.24xlarge"]}


def environments_in_order(assembly: Assembly, pipeline: str) -> list[Resource]:
    queue = assembly.one("Pipelines", "Batch::JobQueue", pipeline)
    order = sorted(queue["ComputeEnvironmentOrder"], key=lambda one: one["Order"])
    all_of_them = assembly.resources("Pipelines", "Batch::ComputeEnvironment")
    return [all_of_them[one["ComputeEnvironment"]["Fn::GetAtt"][0]]["Properties"] for one in order]


@pytest.mark.parametrize("pipeline", TYPES)
def test_each_type_has_a_compute_environment_in_the_order_of_the_configuration(
    assembly: Assembly, pipeline: str
) -> None:
    types = [
        environment["ComputeResources"]["InstanceTypes"] for environment in environments_in_order(assembly, pipeline)
    ]
    assert types == [[name] for name in TYPES[pipeline]]


@pytest.mark.parametrize(("pipeline", "vcpus"), [("cosmosreason22b", 192), ("cosmosreason28b", 96)])
def test_a_compute_environment_has_gpu_instances_up_to_the_configured_vcpus(
    assembly: Assembly, pipeline: str, vcpus: int
) -> None:
    for environment in environments_in_order(assembly, pipeline):
        resources = environment["ComputeResources"]
        assert resources["Type"] == "EC2"
        assert resources["AllocationStrategy"] == "BEST_FIT_PROGRESSIVE"
        assert resources["Ec2Configuration"] == [{"ImageType": "ECS_AL2023_NVIDIA"}]
        assert (resources["MinvCpus"], resources["MaxvCpus"]) == (0, vcpus)
        assert "WorkerGroup" in resources["SecurityGroupIds"][0]["Fn::ImportValue"]
        assert all("PrivateSubnet" in subnet["Fn::ImportValue"] for subnet in resources["Subnets"])
        # A number, and a new one with each change: `$Latest` would go stale.
        assert resources["LaunchTemplate"]["Version"]["Fn::GetAtt"][1] == "LatestVersionNumber"
        # A life of 24 hours and a tenth, an attempt of 8 hours, and half an hour, in minutes that begin.
        assert environment["UpdatePolicy"] == {"TerminateJobsOnUpdate": False, "JobExecutionTimeoutMinutes": 2095}
        assert resources["UpdateToLatestImageVersion"] is True
        assert "ScalingPolicy" not in resources  # no delay: a host without workers goes at once
        assert environment["ReplaceComputeEnvironment"] is False
        assert "ComputeEnvironmentName" not in environment


def test_an_update_of_hosts_ends_no_worker_before_it_leaves_by_itself(assembly: Assembly) -> None:
    for environment in assembly.properties("Pipelines", "Batch::ComputeEnvironment"):
        minutes = environment["UpdatePolicy"]["JobExecutionTimeoutMinutes"]
        for definition in assembly.properties("Pipelines", "Batch::JobDefinition"):
            assert minutes * 60 >= definition["Timeout"]["AttemptDurationSeconds"]


def test_a_life_that_is_longer_than_any_update_takes_what_batch_allows(tmp_path: Path) -> None:
    assembly = changed(tmp_path, worker={"maxLifeHours": 168})
    environments = assembly.properties("Pipelines", "Batch::ComputeEnvironment")
    assert {environment["UpdatePolicy"]["JobExecutionTimeoutMinutes"] for environment in environments} == {7200}


def test_the_earlier_job_definition_stays_until_it_is_no_longer_submitted(assembly: Assembly) -> None:
    for definition in assembly.properties("Pipelines", "Batch::JobDefinition"):
        assert definition["ResourceRetentionPolicy"] == {"SkipDeregisterOnUpdate": True}


def test_another_value_of_host_image_makes_another_version_of_the_launch_template(
    assembly: Assembly, tmp_path: Path
) -> None:
    """Batch then replaces the hosts, and starts the new ones from AWS's newest image."""
    templates = [
        one.one("Pipelines", "EC2::LaunchTemplate")["LaunchTemplateData"]
        for one in (assembly, *(changed(tmp_path / day, operations={"hostImage": day}) for day in ("monday", "friday")))
    ]
    tags = [
        {
            tag["Value"]
            for specification in template["TagSpecifications"]
            for tag in specification["Tags"]
            if "host-image" in tag["Key"]
        }
        for template in templates
    ]
    assert tags == [set(), {"monday"}, {"friday"}]


def changed(folder: Path, **own: object) -> Assembly:
    """Return the app of SEED with this block `cosmosBatch`."""
    config = {"app": {**SEED["app"], "cosmosBatch": own}}
    return Assembly(synthesize(parse_config(json.dumps(config)), folder / "cdk.out"))


def test_a_host_is_launched_with_an_encrypted_disk_and_imdsv2(assembly: Assembly) -> None:
    template = assembly.one("Pipelines", "EC2::LaunchTemplate")["LaunchTemplateData"]
    (device,) = template["BlockDeviceMappings"]
    assert device["DeviceName"] == "/dev/xvda"
    assert device["Ebs"]["VolumeType"] == "gp3" and device["Ebs"]["Throughput"] == 500 and device["Ebs"]["Encrypted"]
    assert template["MetadataOptions"] == {"HttpTokens": "required", "HttpPutResponseHopLimit": 2}


def test_user_data_is_a_mime_archive_that_cloudformation_encodes(assembly: Assembly) -> None:
    template = assembly.one("Pipelines", "EC2::LaunchTemplate")["LaunchTemplateData"]
    archive = json.dumps(template["UserData"]["Fn::Base64"])
    assert "Content-Type: multipart/mixed" in archive
    assert json.dumps(SETUP.read_text())[1:-1] in archive


def test_spot_instances_of_all_types_come_first_and_on_demand_instances_after_them() -> None:
    spot, *on_demand = environments_in_order(example("spot"), "cosmosreason22b")
    resources = spot["ComputeResources"]
    assert (resources["Type"], resources["AllocationStrategy"]) == ("SPOT", "SPOT_PRICE_CAPACITY_OPTIMIZED")
    assert resources["InstanceTypes"] == ["g6e.12xlarge", "g6.12xlarge"]
    assert resources["LaunchTemplate"]["Version"]["Fn::GetAtt"][1] == "LatestVersionNumber"
    assert [environment["ComputeResources"]["InstanceTypes"] for environment in on_demand] == [
        ["g6e.12xlarge"],
        ["g6.12xlarge"],
    ]
    assert {environment["ComputeResources"]["Type"] for environment in on_demand} == {"EC2"}


def test_a_generator_falls_back_to_larger_hosts() -> None:
    environments = environments_in_order(example("generator-only"), "cosmos3nano")
    assert [environment["ComputeResources"]["InstanceTypes"][0] for environment in environments] == [
        "g6e.12xlarge",
        "g6e.24xlarge",
        "g6e.48xlarge",
    ]


@pytest.mark.parametrize("pipeline", TYPES)
def test_resources_have_the_cost_allocation_tag_of_their_pipeline(assembly: Assembly, pipeline: str) -> None:
    tags = [environment["ComputeResources"]["Tags"] for environment in environments_in_order(assembly, pipeline)]
    assert [tag["cosmos-batch:pipeline"].replace("-", "") for tag in tags] == [pipeline] * len(tags)
    assert worker(assembly, pipeline)["PropagateTags"] is True  # `scale` tags the job


@pytest.mark.parametrize("pipeline", TYPES)
def test_batch_gives_up_on_stuck_workers_for_each_reason_that_it_knows(assembly: Assembly, pipeline: str) -> None:
    actions = assembly.one("Pipelines", "Batch::JobQueue", pipeline)["JobStateTimeLimitActions"]
    assert {action["Reason"] for action in actions} == {
        "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
        "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
        "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
        "MISCONFIGURATION:EC2_INSTANCE_CONFIGURATION_UNSUPPORTED",
    }
    assert {(action["State"], action["Action"]) for action in actions} == {("RUNNABLE", "CANCEL")}
    assert all(600 <= action["MaxTimeSeconds"] <= 86_400 for action in actions)


@pytest.mark.parametrize("enabled", enabled_pipelines(parse_config(json.dumps(SEED))), ids=lambda one: one.pipeline.id)
def test_a_worker_reserves_what_each_of_its_types_has_per_gpu(assembly: Assembly, enabled) -> None:
    wanted = enabled.resources
    definition = worker(assembly, enabled.pipeline.id)
    reserved = {
        requirement["Type"]: requirement["Value"]
        for requirement in definition["ContainerProperties"]["ResourceRequirements"]
    }
    assert reserved == {"VCPU": str(wanted.vcpus), "MEMORY": str(wanted.memory_mib), "GPU": str(wanted.gpus)}


@pytest.mark.parametrize("pipeline", [one.id for one in REASONERS])
def test_a_worker_reserves_its_resources_and_runs_without_privileges(assembly: Assembly, pipeline: str) -> None:
    definition = worker(assembly, pipeline)
    container = definition["ContainerProperties"]
    assert container.get("Privileged", False) is False
    reserved = {requirement["Type"]: requirement["Value"] for requirement in container["ResourceRequirements"]}
    assert container["LinuxParameters"] == {
        "InitProcessEnabled": True,
        "SharedMemorySize": int(reserved["MEMORY"]) // 4,
    }
    limits = {limit["Name"]: (limit["SoftLimit"], limit["HardLimit"]) for limit in container["Ulimits"]}
    assert limits == {"nofile": (1_048_576, 1_048_576), "memlock": (-1, -1)}
    assert not container.get("ReadonlyRootFilesystem"), "the engine's socket lies in /tmp"
    assert definition["RetryStrategy"] == {"Attempts": 1}  # at most one start; `scale` decides about the next
    assert definition["Timeout"] == {"AttemptDurationSeconds": 60 * round(60 * (24 * 1.1 + 8) + 30)}
    assert container["LogConfiguration"]["LogDriver"] == "awslogs"


@pytest.mark.parametrize("pipeline", [one.id for one in REASONERS])
def test_a_worker_mounts_the_model_cache_with_tls_and_its_role(assembly: Assembly, pipeline: str) -> None:
    volume = mounted(worker(assembly, pipeline), "/mnt/models")
    efs = volume["EfsVolumeConfiguration"]
    assert efs["TransitEncryption"] == "ENABLED"
    assert efs["AuthorizationConfig"]["Iam"] == "ENABLED" and "AccessPointId" in efs["AuthorizationConfig"]


@pytest.mark.parametrize("pipeline", [one.id for one in REASONERS])
def test_the_workers_of_a_host_share_its_nvme(assembly: Assembly, pipeline: str) -> None:
    volume = mounted(worker(assembly, pipeline), "/mnt/scratch")
    assert volume["Host"] == {"SourcePath": "/mnt/scratch/workers"}
    assert "/mnt/scratch/workers" in SETUP.read_text()


@pytest.mark.parametrize("pipeline", REASONERS, ids=lambda one: one.id)
def test_a_worker_can_read_its_environment(assembly: Assembly, pipeline: Pipeline) -> None:
    variables = worker(assembly, pipeline.id)["ContainerProperties"]["Environment"]
    assert {"Name": "AWS_DEFAULT_REGION", "Value": {"Ref": "AWS::Region"}} in variables  # ECS tells none
    environ = {variable["Name"]: resolve(variable["Value"]) for variable in variables}
    del environ["AWS_DEFAULT_REGION"]
    assert "AWS_BATCH_JOB_ID" not in environ  # Batch's own
    environment = WorkerEnvironment.read({**environ, "AWS_BATCH_JOB_ID": "a-job"})
    assert environment.pipeline == pipeline.id and environment.model == pipeline.model
    assert (environment.model_store, environment.model_store_on) == ("/mnt/models", "efs")
    assert environment.scratch == "/mnt/scratch"
    assert environment.variables() == {
        **environ,
        "AWS_BATCH_JOB_ID": "a-job",
        "MOUNT_TABLE": "/proc/self/mountinfo",
    }


def worker(assembly: Assembly, pipeline: str) -> Resource:
    return assembly.one("Pipelines", "Batch::JobDefinition", pipeline.replace("-", ""))


def mounted(definition: Resource, container_path: str) -> Resource:
    """Return the volume that is mounted at a path of the container."""
    container = definition["ContainerProperties"]
    (name,) = [mount["SourceVolume"] for mount in container["MountPoints"] if mount["ContainerPath"] == container_path]
    (volume,) = [one for one in container["Volumes"] if one["Name"] == name]
    return volume
