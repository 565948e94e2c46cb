"""The queues, their dead-letter queues, and the events that are sent to them."""

import json
from fnmatch import fnmatchcase
from functools import partial

import pytest
from moto.events.models import EventPattern

from cosmos_batch.contract.environment import NUDGE_SECONDS
from cosmos_batch.contract.settings import MAX_RECEIPTS, QUEUE_DAYS
from cosmos_batch.engines.errors import ServerUnavailable
from cosmos_batch.planning.configuration import parse_config
from cosmos_batch.worker import server_outages
from infra.constructs.job_queue import MAX_RECEIVES
from infra.synth import synthesize
from tests.infra.assembly import REASONERS, SEED, Assembly, Resource
from tests.infra.deployed import Deployed
from tests.infra.examples import NAMES, example
from tests.support.jobs import make_job

DAY = 86_400
PIPELINES = [one.id for one in REASONERS]
PIPELINES_STACK = "CosmosBatch-Pipelines"
# docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-policies.html
POLICY_STATEMENTS, POLICY_BYTES = 20, 8192


def queues(assembly: Assembly) -> dict[str, Resource]:
    return {name: queue["Properties"] for name, queue in assembly.resources("Pipelines", "SQS::Queue").items()}


def only(queues: dict[str, Resource], *parts: str) -> Resource:
    (one,) = [queue for name, queue in queues.items() if all(part in name for part in parts)]
    return one


def source_of(assembly: Assembly, function: str) -> Resource:
    """Return the only event source mapping of a function."""
    (source,) = sources_of(assembly, function)
    return source


def sources_of(assembly: Assembly, function: str) -> list[Resource]:
    mappings = assembly.properties("Pipelines", "Lambda::EventSourceMapping")
    return [mapping for mapping in mappings if f"Functions{function}" in mapping["FunctionName"]["Ref"]]


def test_every_queue_is_encrypted_and_takes_tls_only(assembly: Assembly) -> None:
    assert all(queue["SqsManagedSseEnabled"] for queue in queues(assembly).values())
    denied = {
        statement["Resource"]["Fn::GetAtt"][0]
        for policy in assembly.properties("Pipelines", "SQS::QueuePolicy")
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny" and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    }
    assert denied == queues(assembly).keys()


@pytest.fixture(scope="module")
def triggering(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """Provide the app with more buckets whose uploads start runs than a policy of SQS has statements."""
    buckets = [{"name": f"media-{number}", "triggerOnUpload": True} for number in range(POLICY_STATEMENTS + 5)]
    config = json.loads(json.dumps(SEED))
    config["app"]["cosmosBatch"] = {"storage": {"assetBuckets": buckets}}
    return Assembly(synthesize(parse_config(json.dumps(config)), tmp_path_factory.mktemp("triggering") / "cdk.out"))


@pytest.fixture(params=[*NAMES, "triggering"])
def app(request: pytest.FixtureRequest) -> Assembly:
    """Provide each example, of which one has all pipelines, and the app with many triggering buckets."""
    assembly: Assembly = (
        request.getfixturevalue("triggering") if request.param == "triggering" else example(request.param)
    )
    return assembly


def test_the_policy_of_every_queue_is_as_long_as_sqs_takes(app: Assembly) -> None:
    """Whatever the number of rules that send to one queue: each pipeline and each triggering bucket has some."""
    deployed = deployed_app(app)
    for queue, policy in app.resources("Pipelines", "SQS::QueuePolicy").items():
        document = deployed.document(PIPELINES_STACK, policy["Properties"]["PolicyDocument"])
        assert len(document["Statement"]) <= POLICY_STATEMENTS, queue
        assert len(json.dumps(document, separators=(",", ":"))) <= POLICY_BYTES, queue


def test_every_rule_may_send_to_the_queue_that_is_its_target_and_to_its_dead_letters(app: Assembly) -> None:
    text = partial(deployed_app(app).text, PIPELINES_STACK)
    statements = [
        deployed_app(app).document(PIPELINES_STACK, statement)
        for policy in app.properties("Pipelines", "SQS::QueuePolicy")
        for statement in policy["PolicyDocument"]["Statement"]
    ]
    sent = {
        (text({"Fn::GetAtt": [name, "Arn"]}), arn)
        for name, rule in app.resources("Pipelines", "Events::Rule").items()
        for target in rule["Properties"]["Targets"]
        for place in (target, target.get("DeadLetterConfig", {}))
        if "Arn" in place and ":sqs:" in (arn := text(place["Arn"]))
    }
    assert any("Undelivered" in queue for _, queue in sent)
    assert not [
        (rule, queue) for rule, queue in sent if not any(may_send(rule, queue, statement) for statement in statements)
    ]


def may_send(rule: str, queue: str, statement: Resource) -> bool:
    """Return whether a statement allows a rule to send messages to a queue."""
    condition = statement.get("Condition", {})
    patterns = [arns["aws:SourceArn"] for arns in condition.values() if "aws:SourceArn" in arns]
    return (
        statement["Effect"] == "Allow"
        and "sqs:SendMessage" in statement["Action"]
        and statement["Resource"] == queue
        and any(fnmatchcase(rule, pattern) for pattern in patterns)
    )


def deployed_app(app: Assembly) -> Deployed:
    return Deployed({f"CosmosBatch-{stack}": template for stack, template in app.templates.items()})


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_queue_of_a_pipeline_keeps_messages_for_ten_days(assembly: Assembly, pipeline: str) -> None:
    queue = only(queues(assembly), pipeline.replace("-", ""), "JobsQueue")
    assert queue["VisibilityTimeout"] == 120
    assert queue["MessageRetentionPeriod"] == 10 * DAY
    assert queue["RedrivePolicy"]["maxReceiveCount"] == 1000
    dead_letters = queues(assembly)[queue["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0]]
    assert dead_letters["MessageRetentionPeriod"] == 14 * DAY


def test_a_job_may_be_received_until_its_latest_deadline_if_each_pause_is_as_short_as_can_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_outages.random, "uniform", lambda least, _: least)
    job, busy = make_job("a"), ServerUnavailable("busy", "It is busy.", "Wait.")
    pauses, seconds = 0, 0
    while seconds < QUEUE_DAYS * DAY:
        pause = server_outages.pause_seconds(job, pauses, busy)
        assert pause is not None
        pauses, seconds = pauses + 1, seconds + pause
    assert pauses + MAX_RECEIPTS < MAX_RECEIVES


def test_dead_letters_of_every_pipeline_are_answered(assembly: Assembly) -> None:
    answered = [source["EventSourceArn"]["Fn::GetAtt"][0] for source in sources_of(assembly, "DeadLetter")]
    assert sorted(answered) == sorted(name for name in queues(assembly) if "JobsDeadLetters" in name)
    assert all(
        source["FunctionResponseTypes"] == ["ReportBatchItemFailures"] for source in sources_of(assembly, "DeadLetter")
    )


def test_the_jobs_of_a_pipeline_are_ended_before_its_queue_and_the_right_to_do_so_are_deleted(
    assembly: Assembly,
) -> None:
    """CloudFormation deletes a resource before those on which it depends."""
    resources = assembly.templates["Pipelines"]["Resources"].values()
    closings = [resource for resource in resources if resource["Type"] == "Custom::QueueClosing"]
    policies = assembly.resources("Pipelines", "SQS::QueuePolicy")
    assert {closing["Properties"]["Pipeline"] for closing in closings} == set(PIPELINES)
    for closing in closings:
        queue = closing["Properties"]["QueueUrl"]["Ref"]
        assert queue in closing["DependsOn"] and "JobsQueue" in queue
        [policy] = [name for name, rest in policies.items() if rest["Properties"]["Queues"] == [{"Ref": queue}]]
        assert policy in closing["DependsOn"]
        statements = policies[policy]["Properties"]["PolicyDocument"]["Statement"]
        [right] = [statement for statement in statements if statement["Effect"] == "Allow"]
        assert "FunctionsCloseQueueRole" in json.dumps(right["Principal"])
        assert set(right["Action"]) == {"sqs:GetQueueAttributes", "sqs:ReceiveMessage", "sqs:DeleteMessage"}
        assert right["Resource"] == {"Fn::GetAtt": [queue, "Arn"]}


def test_uploads_wait_in_a_queue_that_a_burst_cannot_overrun(assembly: Assembly) -> None:
    source = source_of(assembly, "Upload")
    queue = queues(assembly)[source["EventSourceArn"]["Fn::GetAtt"][0]]
    function = assembly.one("Pipelines", "Lambda::Function", "FunctionsUpload")
    assert source["BatchSize"] == 10
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert source["ScalingConfig"]["MaximumConcurrency"] == 10
    assert queue["VisibilityTimeout"] >= 6 * function["Timeout"]
    assert "deadLetterTargetArn" in queue["RedrivePolicy"]


def test_objects_of_the_asset_bucket_go_to_that_queue(assembly: Assembly) -> None:
    rule = assembly.one("Pipelines", "Events::Rule", "UploadIntake")
    assert rule["EventPattern"]["source"] == ["aws.s3"]
    assert rule["EventPattern"]["detail-type"] == ["Object Created"]
    (bucket,) = rule["EventPattern"]["detail"]["bucket"]["name"]
    assert "Assets" in bucket["Fn::ImportValue"]
    (target,) = rule["Targets"]
    assert target["Arn"] == source_of(assembly, "Upload")["EventSourceArn"]
    assert "DeadLetterConfig" in target


def test_documents_of_reasoners_do_not_go_to_that_queue(assembly: Assembly) -> None:
    rule = assembly.one("Pipelines", "Events::Rule", "UploadIntake")
    pattern = EventPattern.load(json.dumps({"key": rule["EventPattern"]["detail"]["object"]["key"]}))
    assert not pattern.matches_event({"key": "clips/a_CosmosReason_20261123-064200.json"})
    for key in ("clips/a.mp4", "clips/a_CosmosReason.mp4", "clips/a.mp4.metadata.json", "made/request.cosmos.json"):
        assert pattern.matches_event({"key": key}), key


def test_nudges_are_fifo_and_delayed_by_the_width_of_their_bucket(assembly: Assembly) -> None:
    source = source_of(assembly, "Scale")
    queue = queues(assembly)[source["EventSourceArn"]["Fn::GetAtt"][0]]
    assert queue["FifoQueue"] is True and queue["DelaySeconds"] == NUDGE_SECONDS
    assert queue["ContentBasedDeduplication"] is True
    assert queue["VisibilityTimeout"] > assembly.one("Pipelines", "Lambda::Function", "FunctionsScale")["Timeout"]
    dead_letters = queues(assembly)[queue["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0]]
    assert dead_letters["FifoQueue"] is True
    assert source["BatchSize"] == 1


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_end_of_a_worker_nudges_its_pipeline(assembly: Assembly, pipeline: str) -> None:
    name = pipeline.replace("-", "")
    rule = assembly.one("Pipelines", "Events::Rule", f"{name}workerended")
    assert rule["EventPattern"]["source"] == ["aws.batch"]
    assert rule["EventPattern"]["detail-type"] == ["Batch Job State Change"]
    assert rule["EventPattern"]["detail"]["status"] == ["SUCCEEDED", "FAILED"]
    (job_queue,) = rule["EventPattern"]["detail"]["jobQueue"]
    assert name in job_queue["Fn::GetAtt"][0]
    (target,) = rule["Targets"]
    assert target["SqsParameters"] == {"MessageGroupId": pipeline}
    assert target["Arn"] == source_of(assembly, "Scale")["EventSourceArn"]
    assert not target.keys() & {"Input", "InputPath", "InputTransformer"}  # each event differs, so none is a duplicate


def test_every_minute_all_pipelines_are_looked_at(assembly: Assembly) -> None:
    rule = assembly.one("Pipelines", "Events::Rule", "Sweep")
    (target,) = rule["Targets"]
    assert rule["ScheduleExpression"] == "rate(1 minute)"
    assert target["Input"] == '{"sweep":true}'
    assert "FunctionsScale" in target["Arn"]["Fn::GetAtt"][0]


def test_executions_that_end_badly_are_reported(assembly: Assembly) -> None:
    rule = assembly.one("Pipelines", "Events::Rule", "ExecutionEnds")
    (machine,) = assembly.resources("Pipelines", "StepFunctions::StateMachine")
    assert rule["EventPattern"] == {
        "source": ["aws.states"],
        "detail-type": ["Step Functions Execution Status Change"],
        "detail": {"stateMachineArn": [{"Ref": machine}], "status": ["FAILED", "TIMED_OUT", "ABORTED"]},
    }
    (target,) = rule["Targets"]
    assert target["Arn"] == source_of(assembly, "Report")["EventSourceArn"]
    assert "DeadLetterConfig" in target


def test_the_end_of_an_execution_is_kept_until_it_is_reported(assembly: Assembly) -> None:
    source = source_of(assembly, "Report")
    queue = queues(assembly)[source["EventSourceArn"]["Fn::GetAtt"][0]]
    function = assembly.one("Pipelines", "Lambda::Function", "FunctionsReport")
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert queue["VisibilityTimeout"] >= 6 * function["Timeout"]
    assert queue["MessageRetentionPeriod"] == 14 * DAY
    assert queue["VisibilityTimeout"] * queue["RedrivePolicy"]["maxReceiveCount"] >= 10 * 3600
    dead_letters = queues(assembly)[queue["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0]]
    assert dead_letters["MessageRetentionPeriod"] == 14 * DAY
