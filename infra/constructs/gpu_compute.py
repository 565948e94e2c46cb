"""The Batch job queue and the compute environments of one pipeline, one for each of its instance types."""

import math
from collections.abc import Iterator, Sequence

from aws_cdk import Duration
from aws_cdk import aws_batch as batch
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cosmos_batch.catalogue.pipelines import PIPELINE_TAG
from cosmos_batch.contract.settings import WorkerSettings
from cosmos_batch.planning.deployment import EnabledPipeline
from infra.constructs.gpu_hosts import GpuHosts
from infra.stacks.network import NetworkStack

# All reasons that Batch has for a job stuck in RUNNABLE, and after how many seconds it cancels the job, whose end gives
# `scale` the reason. CDK's enumeration lacks the last one. Capacity may come back, which takes longer to wait for than
# a misconfiguration.
STUCK_AFTER = {
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY": 3600,
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE": 600,
    "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT": 600,
    "MISCONFIGURATION:EC2_INSTANCE_CONFIGURATION_UNSUPPORTED": 600,
}
# Batch's maximum for `jobExecutionTimeoutMinutes`: five days.
LONGEST_UPDATE_MINUTES = 7200


class GpuCompute(Construct):
    """A Batch job queue with one compute environment for each instance type, in the order of the configuration.

    With `useSpot`, an environment of Spot instances of all the types comes first. An environment of several On-Demand
    types would launch the one that costs least per vCPU, whatever its GPUs cost. `maxVCpus` limits each environment;
    `scale` limits the total.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        pipeline: EnabledPipeline,
        settings: WorkerSettings,
        network: NetworkStack,
        hosts: GpuHosts,
    ) -> None:
        super().__init__(scope, construct_id)
        # After this time an update ends the jobs on the hosts that it replaces; workers end by themselves before that.
        minutes = min(math.ceil(60 * settings.longest_run_hours), LONGEST_UPDATE_MINUTES)
        self._update_timeout = Duration.minutes(minutes)
        self.queue = batch.JobQueue(self, "Queue", priority=1)
        for order, environment in enumerate(self._environments(pipeline, network, hosts), start=1):
            self.queue.add_compute_environment(environment, order)
        queue = self.queue.node.default_child
        assert isinstance(queue, batch.CfnJobQueue)
        queue.job_state_time_limit_actions = [
            batch.CfnJobQueue.JobStateTimeLimitActionProperty(
                action="CANCEL", state="RUNNABLE", reason=reason, max_time_seconds=seconds
            )
            for reason, seconds in STUCK_AFTER.items()
        ]

    def _environments(
        self, pipeline: EnabledPipeline, network: NetworkStack, hosts: GpuHosts
    ) -> Iterator[batch.ManagedEc2EcsComputeEnvironment]:
        """Yield the environments in the order in which Batch tries them."""
        if pipeline.use_spot:
            yield self._environment("spot", pipeline, pipeline.instance_types, network, hosts, spot=True)
        for instance_type in pipeline.instance_types:
            yield self._environment(instance_type.replace(".", "-"), pipeline, [instance_type], network, hosts)

    def _environment(
        self,
        construct_id: str,
        pipeline: EnabledPipeline,
        instance_types: Sequence[str],
        network: NetworkStack,
        hosts: GpuHosts,
        spot: bool = False,
    ) -> batch.ManagedEc2EcsComputeEnvironment:
        environment = batch.ManagedEc2EcsComputeEnvironment(
            self,
            construct_id,
            vpc=network.vpc,
            vpc_subnets=network.worker_subnets,
            security_groups=[network.worker_group],
            instance_types=[ec2.InstanceType(name) for name in instance_types],
            use_optimal_instance_classes=False,
            images=[batch.EcsMachineImage(image_type=batch.EcsMachineImageType.ECS_AL2023_NVIDIA)],
            spot=spot,
            allocation_strategy=batch.AllocationStrategy.SPOT_PRICE_CAPACITY_OPTIMIZED
            if spot
            else batch.AllocationStrategy.BEST_FIT_PROGRESSIVE,
            minv_cpus=0,
            maxv_cpus=pipeline.max_vcpus,
            instance_role=hosts.role,
            launch_template=hosts.template,
            terminate_on_update=False,
            update_timeout=self._update_timeout,
            # Otherwise all hosts would keep the machine image of the day on which the environment was created.
            update_to_latest_image_version=True,
        )
        resource = environment.node.default_child
        assert isinstance(resource, batch.CfnComputeEnvironment)
        # CDK would write `$Default` or `$Latest`, which Batch resolves only once.
        resource.add_property_override("ComputeResources.LaunchTemplate.Version", hosts.template.latest_version_number)
        # A tag of the instances, by which a pipeline's costs are found.
        resource.add_property_override("ComputeResources.Tags", {PIPELINE_TAG: pipeline.pipeline.id})
        return environment
