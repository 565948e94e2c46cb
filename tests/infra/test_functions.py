"""The names, code, layer and environment variables of the Lambda functions."""

import json
import re
from importlib import import_module
from pathlib import Path

import pytest

from cosmos_batch.contract import environment
from cosmos_batch.contract.environment import DeployedPipeline
from cosmos_batch.planning.configuration import parse_config
from infra.layer import LOCK
from infra.synth import synthesize
from tests.infra.assembly import REASONERS, SEED, Assembly, Resource, resolve
from tests.infra.deployed import Deployed, size_of_environment
from tests.infra.examples import NAMES, example

MODELS = {
    "upload": environment.UploadEnvironment,
    "plan": environment.PlanEnvironment,
    "report": environment.ReportEnvironment,
    "scale": environment.ScaleEnvironment,
    "dead_letter": environment.DeadLetterEnvironment,
    "close_queue": environment.CloseQueueEnvironment,
    "vams": environment.VamsEnvironment,
    "prepare_run": environment.PrepareRunEnvironment,
    "feed": environment.FeedEnvironment,
    "collect": environment.CollectEnvironment,
    "finish_run": environment.FinishRunEnvironment,
}
PIPELINES = [pipeline.id for pipeline in REASONERS]
FOLDERS = [f"lambdas/{name}" for name in ("handlers", "intake", "planning", "reporting", "runs", "scaling", "vams")]


def functions(assembly: Assembly, module: str) -> list[Resource]:
    handler = f"lambdas.handlers.{module}.handler"
    return [
        function for function in assembly.properties("Pipelines", "Lambda::Function") if function["Handler"] == handler
    ]


def environ(function: Resource) -> dict[str, str]:
    return {name: resolve(value) for name, value in function["Environment"]["Variables"].items()}


def test_each_module_has_a_function_and_each_pipeline_a_vams_function(assembly: Assembly) -> None:
    counts = {module: len(functions(assembly, module)) for module in MODELS}
    assert counts == dict.fromkeys(MODELS, 1) | {"vams": len(PIPELINES)}
    assert len(assembly.properties("Pipelines", "Lambda::Function")) == sum(counts.values())


@pytest.mark.parametrize("module", MODELS)
def test_the_handler_of_each_function_exists(module: str) -> None:
    assert callable(import_module(f"lambdas.handlers.{module}").handler)


@pytest.mark.parametrize("module", MODELS)
def test_each_function_can_read_its_environment(assembly: Assembly, module: str) -> None:
    for function in functions(assembly, module):
        variables = environ(function)
        assert MODELS[module].read(variables).variables() == variables


LAMBDA_TAKES = 4096  # bytes of a function's variables
STANDARD_PARAMETER = 4096  # characters of an SSM parameter's value


@pytest.mark.parametrize("name", NAMES)
def test_variables_of_every_function_fit_with_the_names_that_cloudformation_gives(name: str) -> None:
    templates = {f"CosmosBatch-{stack}": template for stack, template in example(name).templates.items()}
    deployed = Deployed(templates)
    for stack, template in templates.items():
        for one in template["Resources"].values():
            if one["Type"] == "AWS::Lambda::Function" and "Environment" in one["Properties"]:
                variables = one["Properties"]["Environment"]["Variables"]
                read = {key: deployed.text(stack, value) for key, value in variables.items()}
                assert size_of_environment(read) <= LAMBDA_TAKES, one["Properties"]["Description"]


def test_lambda_measures_variables_as_json_with_escaped_quotes() -> None:
    assert size_of_environment({"A": '["b"]'}) == len('{"A":"[\\"b\\"]"}')


@pytest.mark.parametrize("name", NAMES)
def test_what_plan_and_scale_know_of_a_pipeline_fits_into_its_parameter(name: str) -> None:
    templates = {f"CosmosBatch-{stack}": template for stack, template in example(name).templates.items()}
    parameters = example(name).properties("Pipelines", "SSM::Parameter")
    assert len(parameters) == len(example(name).resources("Pipelines", "Batch::JobDefinition"))
    for parameter in parameters:
        text = Deployed(templates).text("CosmosBatch-Pipelines", parameter["Value"])
        assert len(text) <= STANDARD_PARAMETER and DeployedPipeline.read(text).queue.id
        assert parameter.get("Tier", "Standard") == "Standard"


def test_plan_begins_anew_when_what_it_has_read_changes(assembly: Assembly, tmp_path: Path) -> None:
    changed = json.loads(json.dumps(SEED).replace('"maxVCpus": 96', '"maxVCpus": 48'))
    other = Assembly(synthesize(parse_config(json.dumps(changed)), tmp_path / "cdk.out"))
    digests = [environ(functions(one, "plan")[0])["PIPELINES_DIGEST"] for one in (assembly, other)]
    assert digests[0] != digests[1]


def test_vams_may_invoke_what_is_called_vams_and_each_serves_its_pipeline(assembly: Assembly) -> None:
    served = {environ(function)["PIPELINE"]: function["FunctionName"] for function in functions(assembly, "vams")}
    assert sorted(served) == PIPELINES
    assert all(name.startswith("vams") and pipeline in name for pipeline, name in served.items())
    outputs = assembly.templates["Pipelines"]["Outputs"]
    assert "FunctionsVamscosmosreason22b" in outputs["Reason2BVamsFunctionName"]["Value"]["Ref"]


@pytest.mark.parametrize("module", MODELS)
def test_each_function_has_time_for_the_retries_of_its_calls(assembly: Assembly, module: str) -> None:
    assert all(function["Timeout"] >= 60 for function in functions(assembly, module))


def test_other_names_are_cloudformations(assembly: Assembly) -> None:
    others = [function for module in MODELS.keys() - {"vams"} for function in functions(assembly, module)]
    assert all("FunctionName" not in function for function in others)


def test_all_functions_share_one_zip_and_one_layer_on_python_3_12_arm64(assembly: Assembly) -> None:
    everything = assembly.properties("Pipelines", "Lambda::Function")
    assert {function["Runtime"] for function in everything} == {"python3.12"}
    assert {tuple(function["Architectures"]) for function in everything} == {("arm64",)}
    assert len({function["Code"]["S3Key"] for function in everything}) == 1
    (layer,) = assembly.resources("Pipelines", "Lambda::LayerVersion")
    assert all(function["Layers"] == [{"Ref": layer}] for function in everything)


def test_each_function_has_a_log_group_with_a_retention_time(assembly: Assembly) -> None:
    logs = assembly.resources("Pipelines", "Logs::LogGroup")
    assert all(log["Properties"]["RetentionInDays"] == 90 for log in logs.values())
    used = [
        function["LoggingConfig"]["LogGroup"]["Ref"]
        for function in assembly.properties("Pipelines", "Lambda::Function")
    ]
    assert len(set(used)) == len(used) and set(used) <= logs.keys()


def test_scale_and_plan_know_every_pipeline_smallest_first(assembly: Assembly) -> None:
    plan = environment.PlanEnvironment.read(environ(functions(assembly, "plan")[0]))
    scale = environment.ScaleEnvironment.read(environ(functions(assembly, "scale")[0]))
    parameters = assembly.resources("Pipelines", "SSM::Parameter")
    texts = {
        resolve({"Ref": name}): resolve(parameter["Properties"]["Value"]) for name, parameter in parameters.items()
    }
    deployed = [DeployedPipeline.read(texts[name]) for name in plan.pipeline_parameters]
    assert scale.pipeline_parameters == plan.pipeline_parameters
    upload = environment.UploadEnvironment.read(environ(functions(assembly, "upload")[0]))
    assert [one.queue.id for one in deployed] == [one.compute.id for one in deployed] == PIPELINES
    assert [(pipeline.id, pipeline.auto_trigger) for pipeline in upload.pipelines] == [
        (PIPELINES[0], [".mp4"]),
        (PIPELINES[1], []),
    ]
    assert [one.compute.max_workers for one in deployed] == [192 // 12, 96 // 12]
    assert plan.deadline_seconds == 72 * 3600


def test_the_code_is_what_the_functions_import_and_nothing_else(assembly: Assembly) -> None:
    folder = assembly.asset_folder(functions(assembly, "plan")[0]["Code"]["S3Key"])
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    rooms = {str(path.parent) for path in files}
    contract = {"cosmos_batch/contract", "cosmos_batch/contract/generation"}
    rules = {f"cosmos_batch/planning{room}" for room in ("", "/generation", "/runs")}
    assert rooms == {
        *{"lambdas", *FOLDERS, "cosmos_batch", "cosmos_batch/catalogue", "cosmos_batch/state"},
        *contract,
        *rules,
    }
    others = {path.name for path in files if path.suffix != ".py"}
    assert others == {"negative_prompt.json", "negative_prompt.LICENSE.txt"}


def test_the_layer_holds_the_locked_wheels_for_the_functions_runtime(assembly: Assembly) -> None:
    layer = assembly.one("Pipelines", "Lambda::LayerVersion")
    folder = assembly.asset_folder(layer["Content"]["S3Key"]) / "python"
    locked = re.findall(r"^([\w-]+)==([\w.]+)", LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    assert {(name.replace("-", "_"), version) for name, version in locked} == installed(folder)
    assert all(fits(tag) for wheel in folder.glob("*.dist-info/WHEEL") for tag in tags(wheel))
    libraries = list(folder.rglob("*.so"))
    assert libraries and all(path.name.endswith(".cpython-312-aarch64-linux-gnu.so") for path in libraries)


def test_the_lock_has_the_versions_of_the_project() -> None:
    project = (LOCK.parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    (pydantic,) = re.findall(r'"pydantic==([\w.]+)"', project)
    assert f"pydantic=={pydantic} --hash=" in LOCK.read_text(encoding="utf-8")


def installed(folder: Path) -> set[tuple[str, str]]:
    names = [path.name.removesuffix(".dist-info") for path in folder.glob("*.dist-info")]
    return {(name.rpartition("-")[0], name.rpartition("-")[2]) for name in names}


def tags(wheel: Path) -> list[str]:
    return re.findall(r"^Tag: (\S+)", wheel.read_text(encoding="utf-8"), re.MULTILINE)


def fits(tag: str) -> bool:
    """Return whether a wheel with this tag runs on Python 3.12, arm64 and Amazon Linux 2023 (glibc 2.34)."""
    python, _, platform = tag.split("-")
    return (python in ("py3", "cp312")) and (platform == "any" or platform.endswith("_aarch64"))
