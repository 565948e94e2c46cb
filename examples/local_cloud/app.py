"""A CDK app for the local cloud: the words of each uploaded file are counted.

S3 -> EventBridge -> Step Functions -> Lambda, then Batch -> S3. `cosmos_batch/local/README.md` says how to run it.
"""

import sys
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_batch as batch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import aws_stepfunctions_tasks as tasks

HERE = Path(__file__).resolve().parent

app = cdk.App(outdir=sys.argv[1] if len(sys.argv) > 1 else None)
stack = cdk.Stack(app, "WordCount")
bucket = s3.Bucket(stack, "Files", event_bridge_enabled=True)

code = lambda_.Code.from_asset(str(HERE / "function"))
split = lambda_.Function(stack, "Split", runtime=lambda_.Runtime.PYTHON_3_12, handler="index.handler", code=code)
bucket.grant_read(split)

public = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PUBLIC)
network = ec2.Vpc(stack, "Network", nat_gateways=0, max_azs=1)
machines = batch.ManagedEc2EcsComputeEnvironment(stack, "Machines", vpc=network, vpc_subnets=public, maxv_cpus=4)
queue = batch.JobQueue(stack, "Queue")
queue.add_compute_environment(machines, 1)
job_role = iam.Role(stack, "JobRole", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
bucket.grant_put(job_role)
image = ecs.ContainerImage.from_asset(str(HERE / "container"))
container = batch.EcsEc2ContainerDefinition(stack, "Container", image=image, cpu=1, memory=cdk.Size.mebibytes(512),
    environment={"BUCKET": bucket.bucket_name}, command=["Ref::words", "Ref::key"], job_role=job_role)  # fmt: skip
definition = batch.EcsJobDefinition(stack, "Definition", container=container)

words = tasks.LambdaInvoke(stack, "Words", lambda_function=split, payload_response_only=True, result_path="$.words")
count = tasks.BatchSubmitJob(stack, "CountWords", job_name="count", job_queue_arn=queue.job_queue_arn,
    job_definition_arn=definition.job_definition_arn,
    payload=sfn.TaskInput.from_object({"words.$": "$.words", "key.$": "$.detail.object.key"}))  # fmt: skip
machine = sfn.StateMachine(stack, "Machine", definition_body=sfn.DefinitionBody.from_chainable(words.next(count)))
texts = {"bucket": {"name": [bucket.bucket_name]}, "object": {"key": [{"prefix": "texts/"}]}}
pattern = events.EventPattern(source=["aws.s3"], detail_type=["Object Created"], detail=texts)
events.Rule(stack, "Uploads", event_pattern=pattern, targets=[targets.SfnStateMachine(machine)])
cdk.CfnOutput(stack, "Bucket", value=bucket.bucket_name)
app.synth()
