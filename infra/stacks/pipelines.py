"""The stack of what jobs run through: the functions, the state machine, and each pipeline's queues and workers."""

from collections.abc import Sequence
from typing import Any

from aws_cdk import CfnOutput, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from cosmos_batch.contract.config import Config
from cosmos_batch.planning.deployment import enabled_pipelines
from infra.constructs.event_queue import EventQueue, execution_failed, object_created
from infra.constructs.functions import Functions
from infra.constructs.gpu_hosts import GpuHosts
from infra.constructs.job_functions import (
    TIMEOUT,
    create_close_queue,
    create_dead_letter,
    create_plan,
    create_report,
    create_upload,
    pipelines_digest,
)
from infra.constructs.nudge_queue import NudgeQueue
from infra.constructs.pipeline import PipelineResources
from infra.constructs.policies_for_people import PoliciesForPeople
from infra.constructs.run_functions import FINISH_TIMEOUT, create_run_functions
from infra.constructs.scaling import Scaling
from infra.constructs.vams import Vams, task_timeout
from infra.constructs.workflow import Workflow
from infra.stacks.images import ImagesStack
from infra.stacks.network import NetworkStack
from infra.stacks.storage import StorageStack


class PipelinesStack(Stack):
    """All enabled pipelines, smallest model first, and the functions and the state machine that they share."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        config: Config,
        network: NetworkStack,
        storage: StorageStack,
        images: ImagesStack,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        self.add_stack_dependency(images)
        settings = config.app.cosmos_batch
        deadline = Duration.seconds(round(settings.deadline_hours * 3600))
        tracing = settings.operations.tracing
        hosts, nudges = GpuHosts(self, "Hosts", settings.operations.host_image), NudgeQueue(self, "Nudges")
        functions = Functions(self, "Functions", tracing)
        self.pipelines = pipelines = [
            PipelineResources(
                self, each.pipeline.id, each, settings.worker, network, hosts, storage, images.images[each.image]
            )
            for each in enabled_pipelines(config)
        ]
        plan = create_plan(functions, storage, pipelines, nudges.queue, deadline)
        report = create_report(functions, storage, settings.vams)
        runs = create_run_functions(
            functions, storage, pipelines, pipelines_digest(pipelines), nudges.queue, settings.vams
        )
        longest = _longest(deadline, task_timeout(settings.vams))
        workflow = Workflow(self, "Workflow", plan, report, longest, tracing, runs, storage.state)
        ends = self._send_failed_executions("ExecutionEnds", workflow, report, TIMEOUT)
        run_ends = self._send_failed_executions("RunEnds", workflow, runs.finish, FINISH_TIMEOUT)
        self.undelivered: dict[str, sqs.IQueue] = {
            "report": ends.undelivered,
            "finish_run": run_ends.undelivered,
            "scale": nudges.failed,
        }
        Scaling(self, "Scaling", functions, settings.scaling, pipelines, nudges, storage, workflow.machine)
        create_dead_letter(functions, storage, pipelines, workflow.machine)
        create_close_queue(functions, storage, pipelines, workflow.machine)
        if storage.assets.triggering and pipelines:
            intake = self._queue_uploads(storage)
            self.undelivered["upload"] = intake.undelivered
            create_upload(functions, config, storage, workflow.machine, plan, intake)
        self._serve_pipelines(workflow, Vams(self, "Vams", functions, settings.vams, storage, workflow))
        people = PoliciesForPeople(self, "People", storage, workflow.machine, pipelines)
        self._write_policies("ViewerPolicyArn", people.viewer)
        self._write_policies("OperatorPolicyArn", people.operator)
        self.machine, self.functions = workflow.machine, functions.created
        CfnOutput(self, "StateMachineArn", value=workflow.machine.state_machine_arn)

    def _serve_pipelines(self, workflow: Workflow, vams: Vams) -> None:
        """Connect each pipeline to the state machine and to VAMS, and write the names of its resources as outputs."""
        for pipeline in self.pipelines:
            pipeline.connect(workflow)
            function = vams.serve(pipeline.enabled)
            name = _output_name(pipeline)
            CfnOutput(self, f"{name}QueueUrl", value=pipeline.queue.queue.queue_url)
            CfnOutput(self, f"{name}Parameter", value=pipeline.parameter.parameter_name)
            CfnOutput(self, f"{name}VamsFunctionName", value=function.function_name)

    def _write_policies(self, name: str, policies: Sequence[iam.ManagedPolicy]) -> None:
        """Write the ARNs of policies that belong together as outputs; the second is called as the first, with a 2."""
        for number, policy in enumerate(policies, start=1):
            CfnOutput(self, name if number == 1 else f"{name}{number}", value=policy.managed_policy_arn)

    def _queue_uploads(self, storage: StorageStack) -> EventQueue:
        return EventQueue(
            self,
            "UploadIntake",
            "Objects that came into an asset bucket",
            [object_created(bucket) for bucket in storage.assets.triggering],
            function_timeout=TIMEOUT,
            max_receives=10,
        )

    def _send_failed_executions(
        self, construct_id: str, workflow: Workflow, function: lambda_.Function, timeout: Duration
    ) -> EventQueue:
        """Send a function the events of executions that failed: one that was stopped cannot call it itself."""
        ends = EventQueue(
            self,
            construct_id,
            "Executions of Cosmos Batch that ended badly",
            [execution_failed(workflow.machine)],
            function_timeout=timeout,
            max_receives=100,  # about ten hours, for a caller waits for the answer
        )
        ends.feed(function)
        return ends


def _longest(*durations: Duration) -> Duration:
    return max(durations, key=lambda duration: duration.to_seconds())


def _output_name(pipeline: PipelineResources) -> str:
    """Return the beginning of an output's name, such as `Reason2B` for the pipeline `reason2B` of the configuration."""
    key = pipeline.enabled.pipeline.config_key
    return key[0].upper() + key[1:]
