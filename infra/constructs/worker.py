"""The Batch job definition of a pipeline's workers, and the role of their container."""

from aws_cdk import Aws, Duration, RemovalPolicy, Size
from aws_cdk import aws_batch as batch
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.settings import WorkerSettings
from cosmos_batch.planning.deployment import EnabledPipeline
from infra.constructs.permissions import SHARDS, allow, allow_key, allow_list, allow_objects, allow_shard_answers
from infra.stacks.storage import CACHES, StorageStack

MODEL_STORE = "/mnt/models"
SCRATCH = "/mnt/scratch"
# Folders on the host's NVMe, which `host_setup.sh` creates.
HOST_WORKERS, HOST_MODELS = "/mnt/scratch/workers", "/mnt/scratch/models"
# PyTorch's processes exchange tensors through /dev/shm, which has 64 MiB by default. It gets this fraction of the
# worker's memory, and takes only what is used.
SHARED_MEMORY_SHARE = 4
OPEN_FILES = 1_048_576
UNLIMITED = -1


class Worker(Construct):
    """The job definition that `scale` submits. Its resources fit all of the pipeline's instance types."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        pipeline: EnabledPipeline,
        settings: WorkerSettings,
        queue: sqs.Queue,
        storage: StorageStack,
        image: ecs.ContainerImage,
    ) -> None:
        super().__init__(scope, construct_id)
        self.resources = pipeline.resources
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
        self.log = logs.LogGroup(self, "Log", removal_policy=RemovalPolicy.DESTROY)
        _allow_files(self.role, storage, pipeline.models)
        _allow_caches(self.role, storage, pipeline.pipeline.id)
        if storage.cache is not None:
            storage.cache.grant_mount(self.role)
        storage.table.grant_calls(self.role, "GetItem", "UpdateItem")
        _allow_queue(self.role, queue)
        if storage.token is not None:
            storage.token.allow(self.role)
        for endpoint in (pipeline.endpoint, pipeline.upsampler):
            if endpoint is not None:
                _allow_api_key(self.role, endpoint)
        self.definition = batch.EcsJobDefinition(
            self,
            "Definition",
            container=self._container(_environment(pipeline, settings, queue, storage), storage, image),
            # Batch must not start a failed worker again: `scale` decides that, by its breaker.
            retry_attempts=1,
            propagate_tags=True,  # the job's ECS task gets them: the costs of a shared host are split by its tags
            # Only a backstop: an idle worker ends by itself, and `scale` drains one at the end of its life.
            timeout=Duration.seconds(round(3600 * settings.longest_run_hours)),
            # `scale` submits the old revision until the deployment tells it of the new one; if CloudFormation
            # deregistered the old one first, Batch would refuse that.
            skip_deregister_on_update=True,
        )

    def allow_answers(self, machine: stepfunctions.StateMachine) -> None:
        """Allow the worker to answer task tokens of our state machine, and those of shards of runs."""
        machine.grant_task_response(self.role)
        allow_shard_answers(self.role, machine)
        # Failing the token makes the shard's state plan its items again, for what is deployed now.
        allow(self.role, ["states:SendTaskFailure"], [f"{machine.state_machine_arn}/{SHARDS}"])

    def _container(
        self, environment: dict[str, str], storage: StorageStack, image: ecs.ContainerImage
    ) -> batch.EcsEc2ContainerDefinition:
        return batch.EcsEc2ContainerDefinition(
            self,
            "Container",
            image=image,
            cpu=self.resources.vcpus,
            memory=Size.mebibytes(self.resources.memory_mib),
            gpu=self.resources.gpus,
            job_role=self.role,
            environment=environment,
            logging=ecs.LogDriver.aws_logs(stream_prefix="worker", log_group=self.log),
            # An init process (tini) passes SIGTERM on, and reaps the processes that an engine leaves behind.
            linux_parameters=batch.LinuxParameters(
                self,
                "Linux",
                init_process_enabled=True,
                shared_memory_size=Size.mebibytes(self.resources.memory_mib // SHARED_MEMORY_SHARE),
            ),
            ulimits=[
                batch.Ulimit(name=batch.UlimitName.NOFILE, soft_limit=OPEN_FILES, hard_limit=OPEN_FILES),
                batch.Ulimit(
                    name=batch.UlimitName.MEMLOCK, soft_limit=UNLIMITED, hard_limit=UNLIMITED
                ),  # pinned memory
            ],
            volumes=[_model_store(storage), _host_volume("scratch", HOST_WORKERS, SCRATCH)],
        )


def _environment(
    pipeline: EnabledPipeline, settings: WorkerSettings, queue: sqs.Queue, storage: StorageStack
) -> dict[str, str]:
    """Return the container's environment variables.

    Batch adds the job's id. The revision of the job definition is not among them, for a definition cannot contain it.
    """
    variables = WorkerEnvironment(
        aws_batch_job_id="",
        pipeline=pipeline.pipeline.id,
        model=pipeline.model,
        model_revision=pipeline.revision,
        engine=pipeline.engine,
        configuration=pipeline.identity.configuration,
        context=pipeline.pipeline.context,
        serving=pipeline.serving,
        lossy=list(pipeline.lossy),
        queue_url=queue.queue_url,
        state_table=storage.table.table_name,
        state_bucket=storage.state.bucket_name,
        model_bucket=storage.models.bucket_name,
        model_store=MODEL_STORE,
        model_store_on="efs" if storage.cache is not None else "nvme",
        scratch=SCRATCH,
        endpoint=pipeline.endpoint,
        upsampler=pipeline.upsampler,
        hf_token_secret=storage.token.arn if storage.token is not None else None,
        worker=settings,
    ).variables()
    del variables["AWS_BATCH_JOB_ID"], variables["MOUNT_TABLE"]  # these are set on the host
    return {**variables, "AWS_DEFAULT_REGION": Aws.REGION}  # ECS names none to a container on EC2


def _allow_api_key(role: iam.Role, endpoint: Endpoint) -> None:
    """Allow the role to read the API key of a server that the worker calls."""
    if endpoint.api_key_secret_arn is not None:
        allow(role, ["secretsmanager:GetSecretValue"], [endpoint.api_key_secret_arn])
    if endpoint.api_key_secret_key_arn is not None:
        allow_key(role, endpoint.api_key_secret_key_arn, "secretsmanager")


def _model_store(storage: StorageStack) -> batch.EcsVolume:
    """Return the volume with the models: EFS, or a folder of the host, which workers fill from S3 under a lock."""
    if storage.cache is None:
        return _host_volume("models", HOST_MODELS, MODEL_STORE)
    return batch.EcsVolume.efs(
        name="models",
        container_path=MODEL_STORE,
        file_system=storage.cache.file_system,
        access_point_id=storage.cache.access_point.access_point_id,
        enable_transit_encryption=True,
        use_job_role=True,
    )


def _host_volume(name: str, host_path: str, container_path: str) -> batch.EcsVolume:
    return batch.EcsVolume.host(name=name, host_path=host_path, container_path=container_path)


def _allow_queue(role: iam.IRole, queue: sqs.Queue) -> None:
    allow(role, ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"], [queue.queue_arn])


def _allow_files(role: iam.IRole, storage: StorageStack, models: list[str]) -> None:
    storage.assets.allow_input(role, "PutObject")
    allow_objects(role, storage.state, "jobs/*", "GetObject", "PutObject")
    allow_objects(role, storage.state, "requests/*", "GetObject")
    for model in models:
        if model.startswith("/"):  # a folder of the image is used where it is, and not backed up
            continue
        prefix = f"models/{model.replace('/', '--')}/"
        allow_list(role, storage.models, prefix)
        allow_objects(role, storage.models, f"{prefix}*", "GetObject", "PutObject", "DeleteObject")


def _allow_caches(role: iam.IRole, storage: StorageStack, pipeline: str) -> None:
    """Allow access to the pipeline's compile caches. They contain code, so only its own workers may write them."""
    allow_list(role, storage.models, f"{CACHES}{pipeline}/")
    allow_objects(role, storage.models, f"{CACHES}{pipeline}/*", "GetObject", "PutObject")
