"""The whole app on a local cloud, as tests and benchmarks use it."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cosmos_batch.cli.local_cloud import start_local_cloud
from cosmos_batch.contract.config import Config
from cosmos_batch.contract.environment import DeployedPipeline
from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.local.deploy import deploy
from cosmos_batch.planning.configuration import parse_config
from cosmos_batch.state import JobRow, Jobs, ReservedKeys, Table, Workers
from infra.synth import synthesize

Answer = TypeVar("Answer")

TWO_B, EIGHT_B = "cosmos-reason2-2b", "cosmos-reason2-8b"
SCRIPTED = "tests.support.scripted_engine:ScriptedEngine"
ENDED = ("SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED")

# The clocks of a deployment in which faults are waited for; the relations between them are those of the defaults.
QUICK = {
    "uploadGraceSeconds": 2,
    "worker": {"idleSeconds": 8, "visibilityTimeoutSeconds": 6, "heartbeatSeconds": 1, "maxAttempts": 2},
    "scaling": {"breakerDelaySeconds": 1, "breakerProbeSeconds": 3600, "targetDrainSeconds": 600},
}


def configuration(
    folder: Path, entry: dict[str, Any] | None = None, use_code_build: bool = False, **cosmos_batch: Any
) -> Config:
    """Return the configuration of `configuration_text`."""
    return parse_config(configuration_text(folder, entry, use_code_build, **cosmos_batch))


def configuration_text(
    folder: Path,
    entry: dict[str, Any] | None = None,
    use_code_build: bool = False,
    token: str = "",
    **cosmos_batch: Any,
) -> str:
    """Return a config.json with both reasoners on the scripted engine; `entry` changes the settings of the 2B."""
    models: dict[str, dict[str, Any]] = {}
    for key, name in (("reason2B", TWO_B), ("reason8B", EIGHT_B)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "config.json").write_text("{}")
        models[key] = {"enabled": True, "engine": SCRIPTED, "model": str(folder / name)}
    models["reason2B"] |= entry or {}
    models["reason8B"]["autoTriggerOnFileExtensionsUpload"] = ".webm"
    block = {
        "enabled": True,
        "useCodeBuild": use_code_build,
        "huggingFaceToken": token,
        "modelsReason": models,
    }
    return json.dumps({"app": {"pipelines": {"useNvidiaCosmos": block}, "cosmosBatch": {**QUICK, **cosmos_batch}}})


def text_with_nano(folder: Path, **generators: Any) -> str:
    """Return `configuration_text` with Nano beside the reasoners; Nano has the scripted generator and no model.

    `generators` are further settings of the block of all generators.
    """
    text: dict[str, Any] = json.loads(configuration_text(folder))
    model = folder / "cosmos3-nano"
    model.mkdir()
    (model / "config.json").write_text("{}")
    entry = {
        "enabled": True,
        "engine": "tests.support.scripted_generator:ScriptedGenerator",
        "model": str(model),
    }
    block = {"enabled": True, "modelsOmni": {"nano16B": entry}, **generators}
    text["app"]["pipelines"]["useNvidiaCosmos3"] = block
    return json.dumps(text)


@dataclass
class App:
    """A deployed app."""

    cloud: LocalCloud
    folder: Path
    outputs: dict[str, str]
    _clients: dict[str, Any] = field(default_factory=dict)
    _inputs: dict[str, str] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self.cloud.client(service)
        return self._clients[service]

    @property
    def assets(self) -> str:
        return self.outputs["AssetBucketName"]

    @property
    def machine(self) -> str:
        return self.outputs["StateMachineArn"]

    @property
    def table(self) -> Table:
        return Table(self.client("dynamodb"), self.outputs["StateTableName"])

    @property
    def jobs(self) -> Jobs:
        return Jobs(self.table)

    @property
    def reserved(self) -> ReservedKeys:
        return ReservedKeys(self.table)

    def workers(self, pipeline: str = TWO_B) -> Workers:
        return Workers(self.table, pipeline)

    def function(self, module: str) -> str:
        """Return the name of the deployed function whose entry point is `lambdas/handlers/<module>.py`."""
        pages = self.client("lambda").get_paginator("list_functions").paginate()
        [name] = [
            one["FunctionName"]
            for page in pages
            for one in page["Functions"]
            if one.get("Description", "").endswith(f"/{module}.py")
        ]
        return str(name)

    def output(self, ending: str) -> str:
        """Return the value of the only stack output whose name has this ending."""
        [value] = [value for name, value in self.outputs.items() if name.endswith(ending)]
        return value

    def vams_function(self, pipeline: str) -> str:
        """Return the name of the function that VAMS invokes for a pipeline."""
        functions = self.client("lambda").get_paginator("list_functions").paginate()
        [name] = [
            function["FunctionName"]
            for page in functions
            for function in page["Functions"]
            if function["FunctionName"].startswith("vams")
            and function.get("Environment", {}).get("Variables", {}).get("PIPELINE") == pipeline
        ]
        return str(name)

    def upload(self, key: str, body: bytes | Path, prompt: str | None = None, **metadata: str) -> str:
        """Upload a file as a person does, and return its version."""
        if prompt is not None:
            metadata["COSMOS_REASON_PROMPT"] = prompt
        data = body.read_bytes() if isinstance(body, Path) else body
        version: str = self.client("s3").put_object(Bucket=self.assets, Key=key, Body=data, Metadata=metadata)[
            "VersionId"
        ]
        return version

    def start(self, request: Any, name: str | None = None) -> str:
        """Start an execution as the Step Functions console does, and return its ARN."""
        arguments = {"name": name} if name else {}
        arn: str = self.client("stepfunctions").start_execution(
            stateMachineArn=self.machine, input=json.dumps(request), **arguments
        )["executionArn"]
        return arn

    def executions(self, key: str | None = None) -> list[dict[str, Any]]:
        """Return all executions, or those for one input file, each with its `input`."""
        stepfunctions = self.client("stepfunctions")
        pages = stepfunctions.get_paginator("list_executions").paginate(stateMachineArn=self.machine)
        listed = [one for page in pages for one in page["executions"]]
        if key is None:
            return listed
        for one in listed:
            arn = one["executionArn"]
            if arn not in self._inputs:  # an input never changes, and asking for all of them is most of a cloud's work
                self._inputs[arn] = stepfunctions.describe_execution(executionArn=arn)["input"]
        with_inputs = [{**one, "input": self._inputs[one["executionArn"]]} for one in listed]
        return [one for one in with_inputs if json.loads(one["input"]).get("input") == f"s3://{self.assets}/{key}"]

    def execution_of(self, key: str, seconds: float = 180) -> dict[str, Any]:
        """Wait until the first execution for an input file has ended, and return its description."""
        arn = wait_for(lambda: self.executions(key), seconds, f"no execution for {key}")[0]["executionArn"]
        return self.ended(arn, seconds)

    def ended(self, arn: str, seconds: float = 180) -> dict[str, Any]:
        """Wait until an execution has ended, and return its description."""
        stepfunctions = self.client("stepfunctions")

        def look() -> dict[str, Any] | None:
            execution: dict[str, Any] = stepfunctions.describe_execution(executionArn=arn)
            return execution if execution["status"] in ENDED else None

        return wait_for(look, seconds, f"{arn} did not end")

    def ended_under_sweeps(self, arn: str) -> dict[str, Any]:
        """Do as `ended`, and invoke the sweep of every minute once a second meanwhile."""

        def look() -> dict[str, Any] | None:
            self.sweep()
            time.sleep(1)
            execution: dict[str, Any] = self.client("stepfunctions").describe_execution(executionArn=arn)
            return execution if execution["status"] in ENDED else None

        return wait_for(look, 120, f"{arn} did not end")

    def row(self, arn: str) -> JobRow:
        row = self.jobs.get(arn.rsplit(":", 1)[-1])
        assert row is not None
        return row

    def document(self, arn: str) -> dict[str, Any]:
        """Return the document of an execution that succeeded."""
        place = parse_uri(self.row(arn).document)
        body = self.client("s3").get_object(Bucket=place.bucket, Key=place.key)["Body"].read()
        document: dict[str, Any] = json.loads(body)
        return document

    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys in the asset bucket."""
        pages = self.client("s3").get_paginator("list_objects_v2").paginate(Bucket=self.assets, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", [])]

    def sweep(self) -> None:
        """Invoke `scale` now, as EventBridge's rule does every minute."""
        functions = self.client("lambda").get_paginator("list_functions").paginate()
        [scale] = [
            one["FunctionName"]
            for page in functions
            for one in page["Functions"]
            if "SCALING" in one.get("Environment", {}).get("Variables", {})
        ]
        self.client("lambda").invoke(FunctionName=scale, Payload=json.dumps({"sweep": True}))

    def queue_url(self, pipeline: str = TWO_B) -> str:
        """Return the URL of a pipeline's queue, which `plan` reads from the pipeline's SSM parameter."""
        return self.deployed(pipeline).queue.queue_url

    def deployed(self, pipeline: str = TWO_B) -> DeployedPipeline:
        """Return what the pipeline's SSM parameter says, from which the functions know the pipeline."""
        [plan] = [variables for variables in self._environments() if "DEADLINE_SECONDS" in variables]
        names = json.loads(plan["PIPELINE_PARAMETERS"])
        parameters = self.client("ssm").get_parameters(Names=names)["Parameters"]
        all_of_them = [DeployedPipeline.read(one["Value"]) for one in parameters]
        return next(one for one in all_of_them if one.queue.id == pipeline)

    def _environments(self) -> list[dict[str, str]]:
        pages = self.client("lambda").get_paginator("list_functions").paginate()
        return [one.get("Environment", {}).get("Variables", {}) for page in pages for one in page["Functions"]]

    def queue_is_empty(self, pipeline: str = TWO_B) -> bool:
        """Return whether the pipeline's queue has no message, neither visible nor in flight."""
        answer = self.client("sqs").get_queue_attributes(QueueUrl=self.queue_url(pipeline), AttributeNames=["All"])
        names = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
        return all(answer["Attributes"][name] == "0" for name in names)

    def worker_jobs(self, pipeline: str = TWO_B) -> list[dict[str, Any]]:
        """Return the Batch jobs of all workers of a pipeline, also of those that have ended."""
        batch = self.client("batch")
        rows = self.workers(pipeline).list()
        jobs: list[dict[str, Any]] = []
        for start in range(0, len(rows), 100):
            jobs += batch.describe_jobs(jobs=[row.worker for row in rows[start : start + 100]])["jobs"]
        return jobs

    def live_workers(self, pipeline: str = TWO_B) -> list[str]:
        return [job["jobId"] for job in self.worker_jobs(pipeline) if job["status"] not in ("SUCCEEDED", "FAILED")]


def error_of(execution: dict[str, Any]) -> dict[str, Any]:
    """Return the Error in the cause of a failed execution."""
    assert execution["status"] == "FAILED", execution
    error: dict[str, Any] = json.loads(execution["cause"])
    assert error["code"] == execution["error"]
    assert error["message"], error
    assert error["remedy"], error
    return error


def wait_for(look: Callable[[], Answer | None], seconds: float, otherwise: str) -> Answer:
    """Call `look` until it returns something true, and return that; fail with the text `otherwise` after `seconds`.

    The pause between two calls grows, because each call costs the local cloud some 10 ms of CPU time.
    """
    end, pause = time.monotonic() + seconds, 0.05
    while True:
        if answer := look():
            return answer
        assert time.monotonic() < end, otherwise
        time.sleep(pause)
        pause = min(0.4, 1.2 * pause)


def deploy_stack(stack: str, assembly: Path, cloud: LocalCloud) -> None:
    """Deploy as `npx cdk deploy --exclusively STACK` does, without changing the other stacks."""
    alone = assembly.parent / f"{stack}.only"
    alone.mkdir(exist_ok=True)
    for file in assembly.iterdir():
        if file.name != "manifest.json" and not (alone / file.name).exists():
            (alone / file.name).symlink_to(file)
    manifest = json.loads((assembly / "manifest.json").read_text(encoding="utf-8"))
    kept = {
        name: artifact
        for name, artifact in manifest["artifacts"].items()
        if artifact["type"] != "aws:cloudformation:stack" or name == stack
    }
    for artifact in kept.values():
        artifact["dependencies"] = [one for one in artifact.get("dependencies", []) if one in kept]
    (alone / "manifest.json").write_text(json.dumps({**manifest, "artifacts": kept}), encoding="utf-8")
    deploy(alone, cloud, lambda _: None)


@contextmanager
def running_app(
    folder: Path, config: Config, prepare: Callable[[LocalCloud], None] = lambda cloud: None
) -> Iterator[App]:
    """Provide the app, deployed to a local cloud of its own. `prepare` creates what the account has before that."""
    with start_local_cloud(folder / "home", parent_pid=os.getpid(), stop_grace=20) as cloud:
        prepare(cloud)
        assembly = synthesize(config, folder / "cdk.out")
        stacks = deploy(assembly, cloud)
        outputs = {name: value for stack in stacks.values() for name, value in stack.items()}
        yield App(cloud, folder, outputs)
