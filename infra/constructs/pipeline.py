"""The resources of one enabled pipeline: its job queue, its compute environments and its workers."""

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.contract.environment import DeployedCompute, DeployedPipeline, DeployedQueue
from cosmos_batch.contract.settings import WorkerSettings
from cosmos_batch.planning.deployment import EnabledPipeline
from infra.constructs.gpu_compute import GpuCompute
from infra.constructs.gpu_hosts import GpuHosts
from infra.constructs.job_queue import JobQueue
from infra.constructs.permissions import allow
from infra.constructs.worker import Worker
from infra.constructs.workflow import Workflow
from infra.stacks.network import NetworkStack
from infra.stacks.storage import StorageStack


class PipelineResources(Construct):
    """The resources that a pipeline does not share. The functions and the state machine serve all pipelines."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        enabled: EnabledPipeline,
        settings: WorkerSettings,
        network: NetworkStack,
        hosts: GpuHosts,
        storage: StorageStack,
        image: ecs.ContainerImage,
    ) -> None:
        super().__init__(scope, construct_id)
        self.enabled = enabled
        self._settings = settings
        self.queue = JobQueue(self, "Jobs", Duration.seconds(settings.visibility_timeout_seconds))
        self.compute = GpuCompute(self, "Compute", enabled, settings, network, hosts)
        self.worker = Worker(self, "Worker", enabled, settings, self.queue.queue, storage, image)
        self.parameter_text = self._facts_for_functions().model_dump_json()
        self.parameter = ssm.StringParameter(
            self,
            "Parameter",
            description=f"What the functions of Cosmos Batch know of {self.id}",
            string_value=self.parameter_text,
        )

    @property
    def id(self) -> str:
        """Return the pipeline's id in the catalogue."""
        return self.enabled.pipeline.id

    def connect(self, workflow: Workflow) -> None:
        """Allow executions to send jobs to the queue, and workers to answer their task tokens."""
        workflow.allow_queue(self.queue.queue)
        self.worker.allow_answers(workflow.machine)

    def _facts_for_functions(self) -> DeployedPipeline:
        """Return the content of the pipeline's SSM parameter, which `plan` and `scale` read."""
        queue_url = self.queue.queue.queue_url
        return DeployedPipeline(
            queue=DeployedQueue(
                id=self.id,
                queue_url=queue_url,
                identity=self.enabled.identity,
                revision=self.enabled.revision,
                serving=self.enabled.serving,
            ),
            compute=DeployedCompute(
                id=self.id,
                queue_url=queue_url,
                job_queue=self.compute.queue.job_queue_arn,
                job_definition=self.worker.definition.job_definition_arn,
                max_workers=self.enabled.max_vcpus // self.worker.resources.vcpus,
                vcpus=self.worker.resources.vcpus,
                warm_workers=self.enabled.warm_workers,
                priority=self.enabled.priority,
                max_life_hours=self._settings.max_life_hours,
                gpu=INSTANCE_TYPES[self.enabled.instance_types[0]].gpu,
                gpus=self.worker.resources.gpus,
                instance_types=self.enabled.instance_types,
                use_spot=self.enabled.use_spot,
            ),
        )


def allow_parameters(grantee: iam.IGrantable, pipelines: Sequence[PipelineResources]) -> None:
    """Allow `grantee` to read the SSM parameters of these pipelines, and no others."""
    if pipelines:
        allow(grantee, ["ssm:GetParameters"], [pipeline.parameter.parameter_arn for pipeline in pipelines])
