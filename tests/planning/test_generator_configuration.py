"""Configurations of generators: GPUs are planned, or the configuration is refused, at synthesis."""

import json
from typing import Any

import pytest

from cosmos_batch.catalogue.engines import image_for, listed_names
from cosmos_batch.contract.entries import GeneratorEntry
from cosmos_batch.contract.environment import DeployedQueue, WorkerEnvironment
from cosmos_batch.contract.generation.serving import ParallelPlans
from cosmos_batch.contract.settings import WorkerSettings
from cosmos_batch.planning.configuration import ConfigError, parse_config
from cosmos_batch.planning.deployment import EnabledPipeline, enabled_pipelines
from cosmos_batch.planning.instance_types import workers_per_instance


def omni(**entries: dict[str, Any]) -> str:
    enabled = {name: {"enabled": True, **entry} for name, entry in entries.items()}
    return json.dumps({"app": {"pipelines": {"useNvidiaCosmos3": {"enabled": True, "modelsOmni": enabled}}}})


def plans_of(enabled: EnabledPipeline) -> ParallelPlans:
    assert enabled.serving is not None
    return enabled.serving.plans


def test_an_empty_configuration_has_all_generators_with_their_defaults() -> None:
    entries = parse_config("{}").app.pipelines.use_nvidia_cosmos3.models_omni
    assert [one.id for one in entries.pipelines()] == [
        "cosmos3-edge",
        "cosmos3-nano", "cosmos3-super", "cosmos3-super-text2image", "cosmos3-super-image2video",
        "cosmos3-super-text2image-4step", "cosmos3-super-image2video-4step",
    ]  # fmt: skip
    for pipeline in entries.pipelines():
        entry = entries.entry(pipeline)
        assert isinstance(entry, GeneratorEntry)
        assert not entry.enabled and entry.auto_register_with_vams and entry.max_vcpus == 192
        assert entry.auto_trigger_on_file_extensions_upload == "" and entry.guardrails
        assert (entry.objective, entry.max_resolution) == ("throughput", "720p")


def test_a_worker_reserves_the_gpus_of_its_plan() -> None:
    (nano,) = enabled_pipelines(parse_config(omni(nano16B={"engine": "vllm-omni", "instanceTypes": ["g6e.12xlarge"],
                                         "fallbackInstanceTypes": []})))  # fmt: skip
    assert {kind: str(plan) for kind, plan in plans_of(nano).items()} == {"L40S": "tp 2"}
    assert (nano.resources.gpus, nano.resources.vcpus) == (2, 24)
    (smaller,) = enabled_pipelines(parse_config(omni(nano16B={"engine": "vllm-omni", "maxResolution": "256p"})))
    assert {kind: str(plan) for kind, plan in plans_of(smaller).items()} == {"L40S": "one GPU"}
    assert smaller.resources.gpus == 1


def test_by_default_nano_shares_two_gpus_and_offloads_nothing() -> None:
    (nano,) = enabled_pipelines(parse_config(omni(nano16B={})))
    assert {kind: str(plan) for kind, plan in plans_of(nano).items()} == {"L40S": "tp 2"}
    assert nano.resources.gpus == 2 and nano.serving is not None and nano.serving.guardrails


@pytest.mark.parametrize(
    ("key", "extensions", "told"),
    [
        ("superText2Image64B", ".mp4", "takes no .mp4 files; allowed: nothing, for it starts from text"),
        ("superImage2Video64B", ".png, .MP4", "takes no .mp4 files; allowed: .jpg, .jpeg, .png, .webp"),
    ],
)
def test_extensions_that_a_generator_does_not_accept_are_refused(key: str, extensions: str, told: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}.autoTriggerOnFileExtensionsUpload: .*{told}"):
        parse_config(omni(**{key: {"autoTriggerOnFileExtensionsUpload": extensions}}))
    parse_config(omni(nano16B={"autoTriggerOnFileExtensionsUpload": ".png, .MP4"}))


FOUR_STEPS = "nvidia/Cosmos3-Super-Text2Image-4Step"


@pytest.mark.parametrize("engine", ["auto", "diffusers", "vllm-omni", "my.module:Engine"])
def test_the_steps_of_a_distilled_model_are_part_of_its_deployment(engine: str) -> None:
    entry = {"engine": engine, "instanceTypes": ["p5en.48xlarge"], "fallbackInstanceTypes": []}
    (enabled,) = enabled_pipelines(parse_config(omni(superText2Image64B={**entry, "model": FOUR_STEPS})))
    assert enabled.serving is not None and enabled.serving.fixed_steps == 4
    (usual,) = enabled_pipelines(parse_config(omni(superText2Image64B=entry)))
    assert usual.serving is not None and usual.serving.fixed_steps is None


def test_a_distilled_model_on_several_gpus_is_never_planned_with_a_second_prompt() -> None:
    entry = {"objective": "latency", "instanceTypes": ["p5.48xlarge"], "model": FOUR_STEPS}
    (enabled,) = enabled_pipelines(parse_config(omni(superText2Image64B=entry)))
    assert {plan.cfg for plan in plans_of(enabled).values()} == {1}


@pytest.mark.parametrize("engine", ["cosmos-framework", "phyai"])
def test_a_distilled_model_is_refused_at_synthesis_for_engines_that_run_none(engine: str) -> None:
    entry = {"engine": engine, "model": FOUR_STEPS, "guardrails": False}
    with pytest.raises(
        ConfigError, match=r"superText2Image64B.model: .* set engine to vllm-omni or diffusers, or take"
    ):
        parse_config(omni(superText2Image64B=entry))
    parse_config(omni(superText2Image64B={**entry, "enabled": False}))


@pytest.mark.parametrize("engine", ["auto", "diffusers"])
def test_a_distilled_model_whose_name_does_not_say_its_steps_is_refused_at_synthesis(engine: str) -> None:
    entry = {"engine": engine, "model": "me/Cosmos3-Super-Distilled"}
    with pytest.raises(ConfigError, match="its name does not say to how many steps"):
        parse_config(omni(superText2Image64B=entry))


def test_a_cache_of_steps_is_refused_for_a_distilled_model() -> None:
    entry = {"model": FOUR_STEPS, "lossy": ["seaCache"], "instanceTypes": ["p5en.48xlarge"]}
    entry["fallbackInstanceTypes"] = []
    with pytest.raises(ConfigError, match=r"superText2Image64B.lossy: seaCache skips steps, and .*-4Step has only 4"):
        parse_config(omni(superText2Image64B=entry))
    parse_config(omni(superText2Image64B={**entry, "model": "nvidia/Cosmos3-Super-Text2Image"}))


def test_an_endpoint_with_a_distilled_model_is_planned_with_its_steps() -> None:
    endpoint = {"url": "http://10.0.1.7:8000/v1", "model": FOUR_STEPS}
    entry = {"engine": "endpoint", "endpoint": endpoint, "guardrails": False}
    (enabled,) = enabled_pipelines(parse_config(omni(superText2Image64B=entry)))
    assert enabled.serving is not None and enabled.serving.fixed_steps == 4


def test_latency_takes_the_whole_instance() -> None:
    entry = {"engine": "vllm-omni", "objective": "latency", "instanceTypes": ["p5.48xlarge"]}
    (nano,) = enabled_pipelines(parse_config(omni(nano16B={**entry, "fallbackInstanceTypes": []})))
    assert (str(plans_of(nano)["H100"]), nano.resources.gpus) == ("cfg 2 x ulysses 4", 8)


@pytest.mark.parametrize("name", ["p5.48xlarge", "p5en.48xlarge"])
def test_eight_generators_of_one_gpu_fill_an_instance_of_eight(name: str) -> None:
    (nano,) = enabled_pipelines(parse_config(omni(nano16B={"instanceTypes": [name], "fallbackInstanceTypes": []})))
    assert [str(plan) for plan in plans_of(nano).values()] == ["one GPU"]
    assert workers_per_instance(nano.pipeline, name) == 8 and nano.max_vcpus == 8 * nano.resources.vcpus


def test_super_runs_on_one_gpu_of_141_gb_and_on_four_of_48() -> None:
    config = parse_config(
        omni(
            super64B={"engine": "vllm-omni"},
            superText2Image64B={
                "engine": "cosmos-framework", "instanceTypes": ["p5en.48xlarge"], "fallbackInstanceTypes": [],
            },
        )
    )  # fmt: skip
    super_, images = enabled_pipelines(config)
    assert {kind: str(plan) for kind, plan in plans_of(super_).items()} == {"L40S": "tp 4, offload", "H100": "tp 4"}
    assert (super_.resources.gpus, images.resources.gpus) == (4, 1)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"engine": "phyai"}, ["super64B.guardrails", "phyai has no guardrails", "false"]),
        ({"engine": "phyai", "guardrails": "required"}, ["super64B.guardrails", "phyai has no guardrails", "false"]),
        (
            {"engine": "endpoint", "endpoint": {"url": "https://x.y/v1"}, "guardrails": "required"},
            ["super64B.guardrails", "does not report whether it checked"],
        ),
        ({"guardrails": "always"}, ["super64B.guardrails", "'always'"]),
        (
            {"engine": "phyai", "guardrails": False},
            ["super64B.instanceTypes", "GiB", "g6e.12xlarge", "it has one for g6e.48xlarge"],
        ),
        ({"instanceTypes": ["g6e.2xlarge"]}, ["super64B.instanceTypes", "vllm-omni has no plan for g6e.2xlarge"]),
        ({"engine": "diffusers"}, ["super64B.instanceTypes", "host's memory", "119 GiB"]),
        ({"objective": "speed"}, ["super64B.objective", "speed", "throughput"]),
        ({"maxResolution": "1080p"}, ["super64B.maxResolution", "1080p", "720p"]),
    ],
)
def test_an_impossible_plan_is_refused_at_synthesis(entry: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config(omni(super64B=entry))
    assert all(word in str(raised.value) for word in words), raised.value


LOSSY = {"engine": "diffusers", "lossy": ["fp8", "stepCache"], "fallbackInstanceTypes": []}
SMALLER = {**LOSSY, "guardrails": False, "maxResolution": "256p"}


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"lossy": ["fp8"]}, "nano16B.lossy: vllm-omni has no fp8; use engine diffusers, or leave fp8 out"),
        ({**LOSSY, "engine": "my.module:Engine"}, "nano16B.lossy: my.module:Engine has no fp8"),
        (
            {"lossy": ["stepCache"], "engine": "endpoint", "endpoint": {"url": "https://x.y/v1"}, "guardrails": False},
            "nano16B.lossy: endpoint has no stepCache",
        ),
        (
            {**LOSSY, "instanceTypes": ["g6e.12xlarge"]},
            "nano16B.lossy: fp8 and stepCache cannot be combined with offload, .* L40S uses; use types with more "
            'memory, or maxResolution "256p"$',
        ),
        (
            {**LOSSY, "instanceTypes": ["g5.12xlarge", "g6e.12xlarge"], "guardrails": False, "maxResolution": "480p"},
            "A10G and L40S uses; use types with more memory$",
        ),
        ({**SMALLER, "instanceTypes": ["g6e.12xlarge", "g6.12xlarge"]}, "L4 uses; .* more memory$"),
        (
            {**SMALLER, "lossy": ["fp8Attention"], "instanceTypes": ["g6e.12xlarge", "p5.4xlarge"]},
            "nano16B.lossy: fp8Attention needs an H100 or H200, and instanceTypes have L40S",
        ),
        ({**LOSSY, "lossy": ["int4"]}, "nano16B.lossy.0"),
        ({**LOSSY, "lossy": ["fp8", "fp8"]}, "nano16B.lossy: .*names a mode twice"),
    ],
)
def test_lossy_modes_that_the_workers_cannot_run_are_refused(entry: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        parse_config(omni(nano16B=entry))


@pytest.mark.parametrize("entry", [{**LOSSY, "instanceTypes": ["p5.4xlarge"]}, SMALLER])
def test_lossy_modes_reach_plan_and_workers_and_are_empty_by_default(entry: dict[str, Any]) -> None:
    (nano,) = enabled_pipelines(parse_config(omni(nano16B=entry)))
    assert nano.serving is not None and nano.serving.lossy == ["fp8", "stepCache"]
    (exact,) = enabled_pipelines(parse_config(omni(nano16B={**entry, "lossy": []})))
    assert exact.serving is not None and exact.serving.lossy == []
    assert enabled_pipelines(parse_config(omni(nano16B={})))[0].serving.lossy == []  # type: ignore[union-attr]


def test_attention_in_fp8_is_accepted_for_an_h100() -> None:
    entry = {**LOSSY, "lossy": ["fp8Attention"], "instanceTypes": ["p5.4xlarge"]}
    (nano,) = enabled_pipelines(parse_config(omni(nano16B=entry)))
    assert nano.serving is not None and nano.serving.lossy == ["fp8Attention"]


def test_with_the_default_types_auto_is_vllm_omni() -> None:
    nano, super_ = enabled_pipelines(parse_config(omni(nano16B={}, super64B={})))
    assert (nano.engine, nano.image, super_.engine) == ("vllm-omni", "omni", "vllm-omni")
    own = enabled_pipelines(parse_config(omni(nano16B={"engine": "my.module:Engine"})))
    assert (own[0].engine, own[0].image) == ("my.module:Engine", "diffusers")


def only(*types: str, **more: Any) -> dict[str, Any]:
    return {"instanceTypes": list(types), "fallbackInstanceTypes": [], **more}


@pytest.mark.parametrize(
    ("key", "entry", "engine"),
    [
        ("nano16B", only("p5.4xlarge"), "diffusers"),
        ("nano16B", only("p5en.48xlarge"), "diffusers"),
        ("nano16B", only("p5.4xlarge", fallbackInstanceTypes=["p5.48xlarge", "p5en.48xlarge"]), "diffusers"),
        ("nano16B", {"instanceTypes": ["p5.48xlarge"]}, "vllm-omni"),  # the catalogue's fallback has L40S
        ("nano16B", only("p5.48xlarge", "g6e.12xlarge"), "vllm-omni"),
        ("nano16B", only("g6e.12xlarge", fallbackInstanceTypes=["p5.48xlarge"]), "vllm-omni"),
        ("nano16B", only("g7e.2xlarge"), "vllm-omni"),
        ("nano16B", only("p6-b200.48xlarge"), "vllm-omni"),
        ("nano16B", only("p5.48xlarge", objective="latency"), "vllm-omni"),
        ("nano16B", only("p5.4xlarge", objective="latency"), "diffusers"),  # an instance with one GPU
        ("nano16B", only("p5.4xlarge", "p5.48xlarge", objective="latency"), "vllm-omni"),
        ("nano16B", only("p5.4xlarge", lossy=["seaCache"]), "vllm-omni"),
        ("nano16B", only("p5.4xlarge", lossy=["fp8", "fp8Attention", "stepCache"]), "diffusers"),
        ("nano16B", only("p5.4xlarge", engine="vllm-omni"), "vllm-omni"),
        ("nano16B", only("p5.4xlarge", engine="cosmos-framework"), "cosmos-framework"),
        ("nano16B", only("p5.4xlarge", engine="my.module:Engine"), "my.module:Engine"),
        # Diffusers would fit on one GPU of both types, and was measured on one of them.
        ("nano16B", only("p5.4xlarge", "g7e.2xlarge"), "vllm-omni"),
        ("edge4B", only("g6e.2xlarge", fallbackInstanceTypes=["p5.4xlarge"]), "vllm-omni"),
        ("edge4B", {}, "vllm-omni"),
        ("edge4B", only("p5.4xlarge"), "diffusers"),
        ("super64B", only("p5.4xlarge"), "vllm-omni"),  # one GPU with offload
        ("super64B", only("p5.48xlarge"), "vllm-omni"),  # four GPUs
        ("super64B", only("p5en.48xlarge"), "vllm-omni"),  # two GPUs
        ("superText2Image64B", only("p5en.48xlarge"), "vllm-omni"),  # images alone
        ("super64B", only("p5en.48xlarge", maxResolution="256p"), "diffusers"),
        ("superImage2Video4Step", only("p5en.48xlarge", maxResolution="256p"), "diffusers"),
        ("superImage2Video4Step", only("p5.48xlarge", maxResolution="256p"), "vllm-omni"),
    ],
)
def test_what_auto_is_follows_from_the_gpus_and_from_what_is_configured(
    key: str, entry: dict[str, Any], engine: str
) -> None:
    (enabled,) = enabled_pipelines(parse_config(omni(**{key: entry})))
    assert enabled.serving is not None and enabled.engine == enabled.serving.engine == enabled.identity.engine == engine
    assert enabled.image == image_for(engine, "generator")
    if engine == "diffusers":
        assert {str(plan) for plan in plans_of(enabled).values()} == {"one GPU"} and enabled.resources.gpus == 1


@pytest.mark.parametrize(
    ("api", "server"), [({}, "vllm-omni"), ({"api": "openai"}, "vllm-omni"), ({"api": "nim"}, "nim")]
)
def test_an_endpoint_is_no_choice_of_an_engine(api: dict[str, str], server: str) -> None:
    endpoint = {"engine": "endpoint", "endpoint": {"url": "http://10.0.1.7:8000/v1", **api}, "guardrails": False}
    (enabled,) = enabled_pipelines(parse_config(omni(nano16B=only("p5.4xlarge", **endpoint))))
    assert enabled.serving is not None and (enabled.engine, enabled.serving.engine) == ("endpoint", server)
    assert (enabled.image, enabled.serving.plans, enabled.serving.by_url) == ("reasoner", {}, True)


def test_a_nim_is_configured_by_its_address_alone() -> None:
    with pytest.raises(ConfigError, match=r"nano16B\.engine: 'nim'"):
        parse_config(omni(nano16B={"engine": "nim"}))
    assert "nim" not in listed_names("generator")


def test_a_nim_with_four_steps_is_planned_with_them() -> None:
    endpoint = {"url": "http://10.0.1.7:8000/v1", "api": "nim"}
    entry = {"engine": "endpoint", "endpoint": {**endpoint, "model": "super-t2i-4step"}, "guardrails": True}
    by_name, by_pipeline = enabled_pipelines(
        parse_config(omni(superText2Image64B=entry, superText2Image4Step={**entry, "endpoint": endpoint}))
    )
    assert by_name.serving is not None and by_pipeline.serving is not None
    assert by_name.serving.fixed_steps == by_pipeline.serving.fixed_steps == 4


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (only("p5.4xlarge", lossy=["seaCache", "fp8"]), "vllm-omni has no fp8; use engine diffusers"),
        (only("p5.48xlarge", lossy=["fp8"], objective="latency"), "vllm-omni has no fp8; use engine diffusers"),
        (only("p5.4xlarge", lossy=["seaCache"], engine="diffusers"), "diffusers has no seaCache; use engine vllm-omni"),
    ],
)
def test_modes_that_no_engine_has_together_are_refused_on_an_h100_too(entry: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=f"nano16B.lossy: {told}"):
        parse_config(omni(nano16B=entry))


KEY = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:prompts-AbCdEf"


def upsampling(**more: Any) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(omni(nano16B={}))
    server = {"url": "https://prompts.example/v1", "apiKeySecretArn": KEY}
    config["app"]["pipelines"]["useNvidiaCosmos3"]["promptUpsampling"] = server
    config["app"]["cosmosBatch"] = more
    return config


def test_prompt_upsampling_is_configured_for_all_generators_and_off_by_default() -> None:
    (nano,) = enabled_pipelines(parse_config(json.dumps(upsampling())))
    assert nano.upsampler is not None and nano.upsampler.api_key_secret_arn == KEY
    assert nano.serving is not None and nano.serving.upsamples
    (plain,) = enabled_pipelines(parse_config(omni(nano16B={})))
    assert plain.upsampler is None and plain.serving is not None and not plain.serving.upsamples


def test_an_api_key_that_workers_cannot_read_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"promptUpsampling\.apiKeySecretArn"):
        parse_config(json.dumps(upsampling(network={"mode": "vpcOnly"})))


def test_the_interface_of_a_generators_nim_is_refused_for_a_model_that_writes_prompts() -> None:
    config = upsampling()
    config["app"]["pipelines"]["useNvidiaCosmos3"]["promptUpsampling"]["api"] = "nim"
    with pytest.raises(ConfigError, match=r"promptUpsampling.*api: 'nim' is the interface of a generator's NIM"):
        parse_config(json.dumps(config))


def test_disabled_generators_need_no_plan() -> None:
    parse_config(json.dumps({"app": {"pipelines": {"useNvidiaCosmos3": {"enabled": True}}}}))


def test_settings_of_a_generator_reach_plan_and_workers() -> None:
    (nano,) = enabled_pipelines(parse_config(omni(nano16B={"guardrails": False, "maxResolution": "480p"})))
    assert nano.serving is not None and not nano.serving.guardrails and nano.serving.max_resolution == "480p"
    queue = DeployedQueue(id="cosmos3-nano", queue_url="q", identity=nano.identity, serving=nano.serving)
    assert DeployedQueue.model_validate_json(queue.model_dump_json()) == queue
    worker = WorkerEnvironment(
        aws_batch_job_id="b", pipeline="cosmos3-nano", model="m/m", engine=nano.engine, serving=nano.serving,
        queue_url="q", state_table="t", state_bucket="s", model_bucket="m", model_store="/mnt/models",
        worker=WorkerSettings(),
    )  # fmt: skip
    assert WorkerEnvironment.read(worker.variables()) == worker


@pytest.mark.parametrize("said", [True, "required", False])
def test_guardrails_can_be_on_off_or_required(said: bool | str) -> None:
    (nano,) = enabled_pipelines(parse_config(omni(nano16B={"guardrails": said, "maxResolution": "480p"})))
    assert nano.serving is not None
    assert (nano.serving.guardrails, nano.serving.guardrails_required) == (said is not False, said == "required")
