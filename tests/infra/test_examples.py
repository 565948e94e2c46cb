"""Every example configuration synthesizes, and its templates contain what the example demonstrates."""

import json
from pathlib import Path

import pytest

from cosmos_batch.contract.environment import DeployedPipeline, PlanEnvironment, WorkerEnvironment
from cosmos_batch.planning.configuration import load_config, parse_config
from cosmos_batch.planning.deployment import enabled_pipelines
from cosmos_batch.worker.model_copies import GuardrailModels
from infra.synth import synthesize
from tests.infra.assembly import Assembly, endpoint_service, resolve
from tests.infra.examples import FOLDER, NAMES, example

KEEPS = {"s3:GetObject", "s3:PutObject", "s3:DeleteObject"}


def environment_variables(assembly: Assembly, function: str) -> dict[str, object]:
    return assembly.one("Pipelines", "Lambda::Function", function)["Environment"]["Variables"]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_deploys_the_pipelines_that_it_enables(name: str) -> None:
    enabled = {entry.pipeline.id for entry in enabled_pipelines(load_config(FOLDER / f"{name}.json"))}
    assert enabled
    queues = example(name).resources("Pipelines", "Batch::JobQueue")
    assert len(queues) == len(enabled)


def test_private_workers_go_out_by_one_nat_gateway() -> None:
    network = example("reason-only")
    assert len(network.resources("Network", "EC2::NatGateway")) == 1
    assert [endpoint["VpcEndpointType"] for endpoint in network.properties("Network", "EC2::VPCEndpoint")] == [
        "Gateway"
    ]


class TestExistingVpc:
    """Tests of `examples/existing-vpc.json`."""

    def test_an_existing_vpc_gets_no_network_of_ours(self) -> None:
        types = {resource["Type"] for resource in example("existing-vpc").templates["Network"]["Resources"].values()}
        assert types <= {
            "AWS::EC2::SecurityGroup",
            "AWS::EC2::SecurityGroupIngress",
            "AWS::EC2::VPCEndpoint",
            "AWS::CDK::Metadata",
        }

    def test_uses_the_named_subnets_and_route_tables(self) -> None:
        assembly = example("existing-vpc")
        endpoint = assembly.one("Network", "EC2::VPCEndpoint")
        assert endpoint["RouteTableIds"] == ["rtb-0123456789abcdef0", "rtb-0123456789abcdef1"]
        for environment in assembly.properties("Pipelines", "Batch::ComputeEnvironment"):
            subnets = environment["ComputeResources"]["Subnets"]
            assert subnets == ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
        targets = assembly.properties("Storage", "EFS::MountTarget")
        assert [target["SubnetId"] for target in targets] == ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]


class TestAdoptedBuckets:
    """Tests of `examples/existing-vpc.json`, with one bucket whose uploads start runs and one whose uploads do not."""

    def test_no_bucket_of_ours_is_made_for_files(self) -> None:
        buckets = example("existing-vpc").resources("Storage", "S3::Bucket")
        assert len(buckets) == 3 and not [name for name in buckets if name.startswith("Assets")]

    def test_inputs_and_outputs_lie_below_their_roots(self) -> None:
        variables = environment_variables(example("existing-vpc"), "FunctionsPlan")
        assert json.loads(json.dumps(variables["ASSET_BUCKETS"])) == '["my-videos/inbox/","my-archive"]'
        assert "asset_buckets" in PlanEnvironment.model_fields

    def test_notifications_change_only_where_it_is_configured(self) -> None:
        resources = example("existing-vpc").templates["Storage"]["Resources"].values()
        (notified,) = [
            resource["Properties"] for resource in resources if resource["Type"] == "Custom::S3BucketNotifications"
        ]
        assert notified["BucketName"] == "my-videos" and notified["Managed"] is False

    def test_uploads_below_the_prefix_start_runs(self) -> None:
        rules = example("existing-vpc").properties("Pipelines", "Events::Rule", "UploadIntake")
        assert [rule["EventPattern"]["detail"] for rule in rules] == [
            {"bucket": {"name": ["my-videos"]}, "object": {"key": [{"prefix": "inbox/"}]}}
        ]

    def test_the_worker_may_read_and_write_there_and_nowhere_else(self) -> None:
        statements = example("existing-vpc").statements("WorkerRole")
        puts = [json.dumps(statement["Resource"]) for statement in statements if "s3:PutObject" in statement["Action"]]
        assert sum(":s3:::my-videos/inbox/*" in resource for resource in puts) == 1
        assert sum(":s3:::my-archive/*" in resource for resource in puts) == 1


def test_public_workers_need_no_nat_gateway(tmp_path: Path) -> None:
    config = parse_config(
        '{"app": {"pipelines": {"useNvidiaCosmos": {"enabled": true, "modelsReason": {"reason2B": {"enabled": true}}}},'
        ' "cosmosBatch": {"network": {"mode": "public"}, "storage": {"useEfs": false}}}}'
    )
    assembly = Assembly(synthesize(config, tmp_path / "cdk.out"))
    assert not assembly.resources("Network", "EC2::NatGateway")
    assert [subnet["MapPublicIpOnLaunch"] for subnet in assembly.properties("Network", "EC2::Subnet")] == [True, True]
    endpoint = assembly.one("Network", "EC2::VPCEndpoint")
    assert endpoint_service(endpoint) == "s3"
    assert [route_table["Ref"][:15] for route_table in endpoint["RouteTableIds"]] == ["VpcPublicSubnet"] * 2
    assert not assembly.resources("Storage", "EFS::FileSystem")
    volumes = assembly.one("Pipelines", "Batch::JobDefinition")["ContainerProperties"]["Volumes"]
    assert {volume["Name"]: volume["Host"]["SourcePath"] for volume in volumes} == {
        "models": "/mnt/scratch/models",
        "scratch": "/mnt/scratch/workers",
    }


class TestVpcOnly:
    """Tests of `examples/vpc-only.json`."""

    def test_the_network_has_no_route_to_the_internet(self) -> None:
        types = {resource["Type"] for resource in example("vpc-only").templates["Network"]["Resources"].values()}
        assert not types & {"AWS::EC2::NatGateway", "AWS::EC2::InternetGateway", "AWS::EC2::EIP"}
        assert len(example("vpc-only").resources("Network", "EC2::Subnet")) == 2

    def test_aws_is_reached_by_endpoints(self) -> None:
        endpoints = example("vpc-only").properties("Network", "EC2::VPCEndpoint")
        names = {endpoint_service(endpoint) for endpoint in endpoints}
        assert names == {
            "s3", "dynamodb", "ecr.api", "ecr.dkr", "ecs", "ecs-agent", "ecs-telemetry", "logs", "sqs", "states",
        }  # fmt: skip

    def test_no_worker_asks_for_a_token_that_it_cannot_reach(self) -> None:
        """Such a worker's job fails at once with an error that says who can put the model into the bucket."""
        (definition,) = example("vpc-only").properties("Pipelines", "Batch::JobDefinition")
        names = [variable["Name"] for variable in definition["ContainerProperties"]["Environment"]]
        assert "MODEL_BUCKET" in names and "HF_TOKEN_SECRET" not in names
        assert "secretsmanager" not in json.dumps(example("vpc-only").statements("WorkerRole"))

    def test_interface_endpoints_admit_workers_and_have_private_names(self) -> None:
        assembly = example("vpc-only")
        rules = assembly.properties("Network", "EC2::SecurityGroupIngress", "EndpointsGroup")
        assert [(rule["FromPort"], "WorkerGroup" in json.dumps(rule["SourceSecurityGroupId"])) for rule in rules] == [
            (443, True)
        ]
        for endpoint in assembly.properties("Network", "EC2::VPCEndpoint"):
            if endpoint["VpcEndpointType"] == "Interface":
                assert endpoint["PrivateDnsEnabled"] and len(endpoint["SubnetIds"]) == 2
                assert len(endpoint["SecurityGroupIds"]) == 1

    def test_the_zones_are_those_of_the_configuration(self) -> None:
        subnets = example("vpc-only").properties("Network", "EC2::Subnet")
        assert {subnet["AvailabilityZone"] for subnet in subnets} == {"us-east-1a", "us-east-1b"}


@pytest.mark.parametrize("name", ["reason-only", "existing-vpc", "vpc-only"])
def test_the_s3_endpoint_lets_our_calls_images_and_packages_through(name: str) -> None:
    endpoints = example(name).properties("Network", "EC2::VPCEndpoint")
    (s3,) = [endpoint for endpoint in endpoints if endpoint_service(endpoint) == "s3"]
    ours, theirs = s3["PolicyDocument"]["Statement"]
    assert ours["Condition"] == {"StringEquals": {"aws:PrincipalAccount": {"Ref": "AWS::AccountId"}}}
    text = json.dumps(theirs["Resource"])
    assert "starport-layer-bucket" in text and "al2023-repos" in text
    assert theirs["Action"] == "s3:GetObject"


GENERATORS = [
    "cosmos3-edge",
    *("cosmos3-nano", "cosmos3-super", "cosmos3-super-text2image", "cosmos3-super-image2video"),
    *("cosmos3-super-text2image-4step", "cosmos3-super-image2video-4step"),
]
GENERATOR_IDS = [name.replace("-", "") for name in GENERATORS]


def has_guardrails(assembly: Assembly, worker: str) -> dict[str, object]:
    """Return the variables of a worker, having checked that its role may fetch and store its guardrails' models."""
    container = assembly.one("Pipelines", "Batch::JobDefinition", worker)["ContainerProperties"]
    variables = {variable["Name"]: variable["Value"] for variable in container["Environment"]}
    texts = {name: value for name, value in variables.items() if isinstance(value, str)}
    references = dict.fromkeys(variables.keys() - texts.keys(), "made by the deployment")
    guardrails = GuardrailModels.of(WorkerEnvironment.read({**texts, **references, "AWS_BATCH_JOB_ID": "worker-1"}))
    assert guardrails is not None and guardrails.models
    resources = json.dumps(
        [statement["Resource"] for statement in assembly.statements(f"{worker}Role") if {*statement["Action"]} >= KEEPS]
    )
    for model in guardrails.models:
        assert f"/models/{model.replace('/', '--')}/*" in resources
    assert "HF_TOKEN" not in variables
    return variables


class TestGenerators:
    """Tests of `examples/generator-only.json` and `everything.json`."""

    @pytest.mark.parametrize("name", ["generator-only", "everything"])
    def test_an_upload_starts_generators_too(self, name: str) -> None:
        pipelines = json.loads(environment_variables(example(name), "FunctionsUpload")["PIPELINES"])
        wanted = ["cosmos3-nano"] if name == "generator-only" else [*REASONERS, *GENERATORS]
        assert [pipeline["id"] for pipeline in pipelines] == wanted, "the smallest first: a prompt alone asks for that"

    @pytest.mark.parametrize(("name", "workers"), [("generator-only", ["cosmos3nano"]), ("everything", GENERATOR_IDS)])
    def test_guardrails_come_from_the_model_store(self, name: str, workers: list[str]) -> None:
        """The worker reads the token and downloads the models; its engine gets files."""
        for worker in workers:
            assert has_guardrails(example(name), f"{worker}Worker")["HF_TOKEN_SECRET"]

    def test_without_a_way_out_they_are_put_there_as_the_model_is(self, tmp_path: Path) -> None:
        config = json.loads((FOLDER / "vpc-only.json").read_text())
        config["app"]["pipelines"] = json.loads((FOLDER / "generator-only.json").read_text())["app"]["pipelines"]
        assembly = Assembly(synthesize(parse_config(json.dumps(config)), tmp_path / "cdk.out"))
        assert "HF_TOKEN_SECRET" not in has_guardrails(assembly, "cosmos3nanoWorker")

    def test_the_variables_of_upload_fit(self) -> None:
        assert len(json.dumps(environment_variables(example("everything"), "FunctionsUpload"))) < 4096

    def test_a_super_worker_takes_four_gpus(self) -> None:
        assert asked("cosmos3super")["GPU"] == "4"


REASONERS = [
    *("cosmos-reason2-2b", "cosmos3-edge-reason", "cosmos-reason2-8b"),
    *("cosmos3-nano-reason", "cosmos-reason2-32b", "cosmos3-super-reason"),
]


def asked(pipeline: str) -> dict[str, str]:
    """Return the resources that a worker's job definition reserves in Batch."""
    definition = example("everything").one("Pipelines", "Batch::JobDefinition", f"{pipeline}Worker")
    return {
        requirement["Type"]: requirement["Value"]
        for requirement in definition["ContainerProperties"]["ResourceRequirements"]
    }


class TestReasoners:
    """Tests of the reasoners of `examples/everything.json`."""

    @pytest.mark.parametrize(("pipeline", "gpus"), list(zip(REASONERS, "111144", strict=True)))
    def test_a_gpu_is_one_replica_and_more_gpus_share_the_weights(self, pipeline: str, gpus: str) -> None:
        assert asked(pipeline.replace("-", ""))["GPU"] == gpus

    @pytest.mark.parametrize("pipeline", REASONERS)
    def test_a_worker_is_told_its_context_and_chooses_its_engine(self, pipeline: str) -> None:
        name = f"{pipeline.replace('-', '')}Worker"
        definition = example("everything").one("Pipelines", "Batch::JobDefinition", name)
        variables = {
            variable["Name"]: variable["Value"] for variable in definition["ContainerProperties"]["Environment"]
        }
        assert (variables["PIPELINE"], variables["CONTEXT"], variables["ENGINE"]) == (pipeline, "32768", "auto")

    def test_all_reasoners_use_one_image(self) -> None:
        definitions = example("everything").resources("Pipelines", "Batch::JobDefinition")
        names = [f"{pipeline.replace('-', '')}Worker" for pipeline in REASONERS]
        images = {
            json.dumps(definition["Properties"]["ContainerProperties"]["Image"])
            for logical_id, definition in definitions.items()
            if logical_id.startswith(tuple(names))
        }
        assert len(images) == 1


@pytest.mark.parametrize("name", ["everything", "generator-only"])
def test_jobs_are_planned_for_the_workers_that_are_deployed_with_plan(name: str) -> None:
    """If the identities of `plan` and its workers differed, each job would be planned again without end."""
    assembly = example(name)
    parameters = [resolve(parameter["Value"]) for parameter in assembly.properties("Pipelines", "SSM::Parameter")]
    queues = [DeployedPipeline.read(text).queue for text in parameters]
    planned = {queue.id: queue.identity.configuration for queue in queues}
    containers = [
        definition["ContainerProperties"] for definition in assembly.properties("Pipelines", "Batch::JobDefinition")
    ]
    workers = [
        {variable["Name"]: resolve(variable["Value"]) for variable in container["Environment"]}
        for container in containers
    ]
    assert planned == {worker["PIPELINE"]: worker["CONFIGURATION"] for worker in workers}
    assert len(set(planned.values())) == len(planned) == len(workers)
