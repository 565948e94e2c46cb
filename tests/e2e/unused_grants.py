"""List the permissions that the flows of `test_flows.py` do not use, each with the reason why it is granted."""

from fnmatch import fnmatchcase
from typing import NamedTuple

from tests.e2e.grants import Grant

# Calls of which the local cloud's record tells no resource: IAM has none for them, or it is in what they answer for.
WITHOUT_RESOURCE = {
    "batch:describejobs",
    "codebuild:batchgetbuilds",
    "ecr:getauthorizationtoken",
    "events:putevents",
    "ssm:getparameters",
    "states:sendtaskfailure",
    "states:sendtaskheartbeat",
    "states:sendtasksuccess",
}


class Unused(NamedTuple):
    """Actions that roles are granted on resources that match a pattern."""

    roles: list[str]
    actions: list[str]
    reason: str
    resource: str = "*"

    def excuses(self, grant: Grant) -> bool:
        """Return whether this entry explains a grant."""
        return grant.role in self.roles and grant.action in self.actions and fnmatchcase(grant.resource, self.resource)


PIPELINES = ["cosmosreason22b", "cosmosreason28b"]
WORKERS = [f"{pipeline}Worker" for pipeline in PIPELINES]
VAMS = [f"FunctionsVams{pipeline}" for pipeline in PIPELINES]
CONSUMERS = ["FunctionsDeadLetter", "FunctionsFinishRun", "FunctionsReport", "FunctionsScale", "FunctionsUpload"]
RUNS = ["FunctionsCollect", "FunctionsFeed", "FunctionsFinishRun", "FunctionsPrepareRun"]
TRACED = [*CONSUMERS, "FunctionsCloseQueue", "FunctionsPlan", *VAMS, *RUNS]
TRACE = ["xray:puttelemetryrecords", "xray:puttracesegments"]
LOG = ["logs:createlogstream", "logs:putlogevents"]
PULL = ["ecr:batchchecklayeravailability", "ecr:batchgetimage", "ecr:getdownloadurlforlayer"]

# What the functions of runs are granted: `test_runs.py` compares it with their calls, and no other flow calls them.
_ROWS = ["dynamodb:getitem", "dynamodb:updateitem"]
_TABLES = ["s3:getobject", "s3:listbucket", "s3:putobject", "states:sendtasksuccess"]
USED_BY_RUNS = {
    "FunctionsPrepareRun": [
        *_ROWS,
        "dynamodb:putitem",
        "s3:getobject",
        "s3:listbucket",
        "s3:putobject",
        "ssm:getparameters",
    ],
    "FunctionsFeed": [
        *_ROWS,
        *_TABLES,
        *("dynamodb:putitem", "s3:getobjectversion", "sqs:sendmessage", "ssm:getparameters"),
        "states:sendtaskfailure",
    ],
    "FunctionsCollect": [*_ROWS, *_TABLES],
    "FunctionsFinishRun": [
        *_ROWS,
        *_TABLES,
        *("dynamodb:deleteitem", "dynamodb:query", "events:putevents", "states:sendtaskfailure"),
    ],
}
# What the flows of `test_runs.py` leave out of that.
UNUSED_BY_RUNS = [
    Unused(RUNS, ["s3:listbucket"], "S3 asks for it to say 404 instead of 403"),
    Unused(["FunctionsFeed"], ["s3:getobject", "s3:putobject"], "a long prompt: test_plan.py", "*/requests/[*]"),
    Unused(["FunctionsFeed"], ["s3:getobjectversion"], "a version that is not the latest: test_plan.py"),
    Unused(["FunctionsFeed"], ["sqs:sendmessage"], "no run here is of the 8B", "*cosmosreason28b*"),
    Unused(
        ["FunctionsCollect", "FunctionsFinishRun"],
        ["states:sendtasksuccess"],
        "a job that two cancelled runs wait for: tests/lambdas/runs/test_collect.py",
    ),
    Unused(["FunctionsFinishRun"], ["states:sendtaskfailure"], "a run that failed: tests/lambdas/runs/test_finish.py"),
    # What `collect` does, of a run that was stopped when some of its items had their answer.
    Unused(
        ["FunctionsCollect", "FunctionsFinishRun"],
        ["s3:getobject"],
        "large documents: tests/state/test_staged_documents.py",
        "*/jobs/[*]",
    ),
    Unused(["FunctionsFinishRun"], ["s3:putobject"], "results: tests/lambdas/runs/test_collect.py", "*/results/[*]"),
]

UNUSED = [
    Unused([*TRACED, "BuildsFunctionsImageBuild"], LOG, "used by Lambda itself"),
    Unused(TRACED, TRACE, "used by Lambda itself"),
    Unused(
        CONSUMERS,
        ["sqs:changemessagevisibility", "sqs:deletemessage", "sqs:getqueueurl", "sqs:receivemessage"],
        "what Lambda does for an event source; scale, also with an open breaker: test_faults.py",
    ),
    Unused(
        ["FunctionsDeadLetter", "FunctionsFinishRun", "FunctionsReport", "FunctionsUpload"],
        ["sqs:getqueueattributes"],
        "what Lambda does for an event source",
    ),
    Unused(["FunctionsScale"], ["sqs:getqueueattributes"], "what Lambda does for an event source", "*:*NudgesQueue*"),
    Unused(
        ["FunctionsDeadLetter"],
        ["dynamodb:getitem", "dynamodb:updateitem", "states:sendtaskfailure", "states:sendtasksuccess"],
        "no flow here makes a dead letter: tests/lambdas/reporting/test_dead_letters.py",
    ),
    Unused(
        ["FunctionsCloseQueue"],
        [
            *("batch:terminatejob", "dynamodb:getitem", "dynamodb:query", "dynamodb:updateitem"),
            *("states:sendtaskfailure", "states:sendtasksuccess"),
        ],
        "no flow here removes a pipeline: test_removed_pipeline.py",
    ),
    Unused(
        VAMS,
        ["states:sendtasksuccess"],
        "a retry of a run that has succeeded: tests/lambdas/vams/test_repeated_calls.py",
    ),
    Unused(
        ["FunctionsPlan"], ["s3:putobject"], "a long prompt that a person typed: tests/lambdas/planning/test_plan.py"
    ),
    Unused(
        ["FunctionsPlan"],
        ["s3:getobjectversion"],
        "a version that is not the latest: tests/lambdas/planning/test_plan.py",
    ),
    Unused(["FunctionsPlan"], ["s3:getobject"], "a long prompt: tests/lambdas/planning/test_plan.py", "*/requests/[*]"),
    Unused(
        ["FunctionsPlan", "FunctionsUpload", *WORKERS], ["s3:listbucket"], "S3 asks for it to say 404 instead of 403"
    ),
    Unused(["FunctionsUpload"], ["s3:listbucketversions"], "S3 asks for it to say 404 instead of 403"),
    Unused(["FunctionsUpload"], ["s3:getobjecttagging"], "a bucket without versions: test_adopted_buckets.py"),
    Unused(["FunctionsUpload"], ["s3:putobject"], "a long prompt in a sidecar: tests/lambdas/intake/test_uploads.py"),
    Unused(["FunctionsUpload"], ["states:stopexecution"], "a late sidecar: tests/lambdas/intake/test_uploads.py"),
    Unused(
        ["FunctionsUpload"], ["states:describeexecution"], "a sidecar after its file's event: depends on their order"
    ),
    Unused(
        VAMS, ["s3:putobject", "dynamodb:getitem", "dynamodb:updateitem"], "long prompts, repeats: test_bad_input.py"
    ),
    Unused(
        VAMS,
        ["s3:getobject"],
        "a call on several files that is repeated: tests/lambdas/vams/test_runs.py",
        "*/runs/[*]/*",
    ),
    Unused(
        ["FunctionsVamscosmosreason28b"],
        ["dynamodb:putitem", "states:sendtaskfailure", "states:startexecution"],
        "what the 2B's does; no flow here comes to the 8B by VAMS",
    ),
    Unused(
        ["FunctionsScale"],
        ["batch:describecomputeenvironments", "batch:describejobqueues", "batch:terminatejob"],
        "a worker without an instance: tests/lambdas/scaling/test_fleet.py",
    ),
    Unused(["FunctionsScale"], ["batch:submitjob"], "asked for beside the queue, which is told", "*:job-definition/*"),
    Unused(["FunctionsScale"], ["batch:tagresource"], "IAM asks for it where SubmitJob has tags"),
    Unused(["FunctionsScale"], ["states:sendtaskfailure"], "an open breaker: test_faults.py"),
    Unused(
        ["FunctionsScale"], ["states:sendtasksuccess", "s3:getobject"], "runs: tests/lambdas/runs/test_reconcile.py"
    ),
    Unused(["FunctionsScale"], ["sqs:sendmessage"], "runs: tests/lambdas/runs/test_reconcile.py", "*cosmosreason2*"),
    Unused(
        ["WorkflowMachine"],
        [
            *("s3:getobject", "states:describeexecution", "states:redriveexecution"),
            *("states:startexecution", "states:stopexecution"),
        ],
        "a Distributed Map of runs, which the local cloud runs without these calls",
    ),
    *(Unused([role], actions, "runs: test_runs.py") for role, actions in USED_BY_RUNS.items()),
    *(Unused(["WorkflowMachine"], ["lambda:invokefunction"], "runs: test_runs.py", f"*:*{role}*") for role in RUNS),
    Unused(["WorkflowMachine"], ["lambda:invokefunction"], "versions of a function: CDK's grant", "*:[*]"),
    Unused(
        ["WorkflowMachine"],
        [
            *TRACE,
            "xray:getsamplingrules",
            "xray:getsamplingtargets",
            "logs:createlogdelivery",
            "logs:deletelogdelivery",
            "logs:describeloggroups",
            "logs:describeresourcepolicies",
            "logs:getlogdelivery",
            "logs:listlogdeliveries",
            "logs:putresourcepolicy",
            "logs:updatelogdelivery",
        ],
        "used by Step Functions itself",
    ),
    Unused(WORKERS, ["elasticfilesystem:clientmount", "elasticfilesystem:clientwrite"], "used by the mount"),
    Unused(WORKERS, ["s3:getobject"], "a long prompt, a copy, a bucket without versions: test_bad_input.py"),
    Unused(WORKERS, ["s3:putobject"], "a large document: tests/state/test_staged_documents.py", "*/jobs/[*]"),
    Unused(WORKERS, ["s3:putobject"], "an engine that compiles: tests/store/test_compile_caches.py", "*/caches/*"),
    Unused(WORKERS, ["secretsmanager:getsecretvalue"], "only when a model must be downloaded: test_models.py"),
    Unused(WORKERS, ["sqs:changemessagevisibility"], "leases of long jobs: test_faults.py"),
    Unused(WORKERS, ["states:sendtaskfailure"], "a job that fails: test_bad_input.py"),
    Unused(
        [f"{worker}ContainerExecution" for worker in WORKERS], [*LOG, *PULL, "ecr:getauthorizationtoken"], "used by ECS"
    ),
    Unused(["BuildsFunctionsImageBuild"], ["logs:getlogevents"], "a build that failed: test_image_builds.py"),
    Unused(
        ["ReasonerBuildProject"],
        [*PULL, "ecr:completelayerupload", "ecr:initiatelayerupload", "ecr:uploadlayerpart"],
        "what Docker does to push and pull",
    ),
    Unused(["ReasonerBuildProject"], [*LOG, "logs:createloggroup"], "used by CodeBuild itself"),
    Unused(["ReasonerBuildProject"], ["s3:getbucket*", "s3:getobject*", "s3:list*"], "CDK's grant of an asset"),
    Unused(
        ["ReasonerBuildProject"],
        [
            "ec2:createnetworkinterface",
            "ec2:createnetworkinterfacepermission",
            "ec2:deletenetworkinterface",
            "ec2:describedhcpoptions",
            "ec2:describenetworkinterfaces",
            "ec2:describesecuritygroups",
            "ec2:describesubnets",
            "ec2:describevpcs",
        ],
        "used by CodeBuild itself: builds run in the private subnets",
    ),
]
