"""vLLM's server is started with the right options, environment, chat template and share of memory."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.engines import factory, gpus
from cosmos_batch.engines.protocol import LossyEngine
from cosmos_batch.engines.reasoner.vllm import command as vllm_command
from cosmos_batch.media import gpu_decoding
from tests.support.real_vllm import needs_vllm


@pytest.mark.parametrize(("gpus_here", "shared"), [(0, True), (1, True), (2, True), (4, True), (3, False), (8, False)])
def test_gpus_share_attention_heads_evenly(checkpoint_dir: Path, gpus_here: int, shared: bool) -> None:
    """The tiny checkpoint has four heads."""
    reason = vllm_command.uneven(checkpoint_dir, gpus_here)
    assert (reason is None) == shared
    assert shared or (reason is not None and "4 attention heads" in reason and f"{gpus_here} GPUs" in reason)


@pytest.mark.parametrize(
    ("output", "taken"),
    [
        ("24217, 24564\n", 0.92),  # nobody else is there
        ("21600, 24564\n", 0.85),  # a desktop and its windows
        ("81000, 81559\n40780, 81559\n", 0.47),  # the fullest of two
        ("no devices\n", 0.92),
        ("", 0.92),
    ],
)
def test_the_share_of_memory_is_what_others_leave_free(driver: Path, output: str, taken: float) -> None:
    driver.write_text(output)
    assert vllm_command.memory_share(gpus.free_share()) == taken


@needs_vllm
def test_a_server_on_gpus_is_started_with_these_options_and_variables(checkpoint_dir: Path, tmp_path: Path) -> None:
    plan = vllm_command.VllmPlan(context=1, sequences=1, gpus=4, memory=0.85)
    command = vllm_command.serve_command(checkpoint_dir, plan, tmp_path, tmp_path)
    options = dict(pairwise(command))
    assert options["--gpu-memory-utilization"] == "0.85"
    assert options["--tensor-parallel-size"] == "4" and options["--mm-encoder-tp-mode"] == "data"
    assert "--async-scheduling" in command
    assert command[1] == "-P", "modules are not looked for in the current folder"
    variables = vllm_command.serve_environment(4, None, tmp_path)
    assert variables["VLLM_USE_DEEP_GEMM"] == "0" and variables["HF_HUB_OFFLINE"] == "1"
    assert variables["HUMMING_DISABLE_PARALLEL_BUILD"] == "1", "or two processes compile beside the start"
    assert variables["VLLM_WORKER_MULTIPROC_METHOD"] == "fork", "or its core imports all of it anew"


def test_weights_are_converted_to_fp8_only_where_the_plan_says_so(checkpoint_dir: Path, tmp_path: Path) -> None:
    plan = vllm_command.VllmPlan(context=1, sequences=256, gpus=1)
    converting = replace(plan, fp8=True)
    for one in (converting, converting.smaller()):
        options = dict(pairwise(vllm_command.serve_command(checkpoint_dir, one, tmp_path, tmp_path)))
        assert options["--quantization"] == "fp8" and "weights in FP8" in str(one)
        assert "--kv-cache-dtype" not in options
    command = vllm_command.serve_command(checkpoint_dir, plan, tmp_path, tmp_path)
    assert "--quantization" not in command and "FP8" not in str(plan)


def test_keys_and_values_are_kept_in_fp8_only_where_the_plan_says_so(checkpoint_dir: Path, tmp_path: Path) -> None:
    plan = replace(vllm_command.VllmPlan(context=1, sequences=256, gpus=1), fp8_cache=True)
    for one in (plan, plan.smaller()):
        options = dict(pairwise(vllm_command.serve_command(checkpoint_dir, one, tmp_path, tmp_path)))
        assert options["--kv-cache-dtype"] == "fp8" and "keys and values in FP8" in str(one)
        assert "--quantization" not in options


@pytest.mark.parametrize(("number", "compiled"), [(1, True), (2, False)])
def test_the_vision_encoder_is_compiled_on_one_gpu(
    checkpoint_dir: Path, tmp_path: Path, number: int, compiled: bool
) -> None:
    """With several, vLLM's compiler waits for processes that wait for the encoder."""
    plan = vllm_command.VllmPlan(context=1, sequences=1, gpus=number)
    options = dict(pairwise(vllm_command.serve_command(checkpoint_dir, plan, tmp_path, tmp_path)))
    asked = json.loads(options["--compilation-config"])
    assert asked.pop("cudagraph_mode") == "FULL_DECODE_ONLY", "no graphs of steps that no clip fits into"
    assert asked == ({"compile_mm_encoder": True} if compiled else {})


def test_a_server_on_the_cpu_is_not_compiled(checkpoint_dir: Path, tmp_path: Path) -> None:
    plan = vllm_command.VllmPlan(context=1, sequences=1, gpus=0)
    assert "--compilation-config" not in vllm_command.serve_command(checkpoint_dir, plan, tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("number", "memory", "kept"), [(1, 0.92, True), (2, 0.92, True), (1, 0.7, False), (0, 0.92, False)]
)
def test_the_room_for_keys_and_values_is_measured_once_where_a_gpu_is_free(
    tmp_path: Path, number: int, memory: float, kept: bool
) -> None:
    """On a GPU that others hold in part, the room is another one each time, and on a CPU it is not measured."""
    plan = vllm_command.VllmPlan(context=1, sequences=1, gpus=number, memory=memory)
    assert ("VLLM_ENABLE_STARTUP_PLAN" in plan.environment(tmp_path, tmp_path)) == kept


@needs_vllm
@pytest.mark.parametrize(("output", "why"), [("8.6\n", "the GPU has compute capability 8.6"), ("", "there is no GPU")])
def test_vllm_does_not_load_with_fp8_on_a_gpu_without_it(
    driver: Path, checkpoint_dir: Path, output: str, why: str
) -> None:
    driver.write_text(output)
    engine = factory.create_engine("vllm")
    assert isinstance(engine, LossyEngine) and not engine.lossy
    engine.lossy = ["fp8"]
    with pytest.raises(Failure, match=f"fp8: impossible here, because {why}") as raised:
        engine.load(checkpoint_dir)
    assert "useNvidiaCosmos.modelsReason in config.json" in raised.value.error.remedy


@needs_vllm
def test_vllm_does_not_load_with_decoding_on_a_gpu_that_does_not_decode(
    checkpoint_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_decoding, "device_of_this_process", lambda: None)
    engine = factory.create_engine("vllm")
    assert isinstance(engine, LossyEngine)
    engine.lossy = ["gpuDecode"]
    with pytest.raises(Failure, match="gpuDecode: impossible here, because FFmpeg could not start a GPU's"):
        engine.load(checkpoint_dir)


@pytest.mark.parametrize("kept_in", ["chat_template.jinja", "chat_template.json", "tokenizer_config.json"])
def test_the_template_leaves_out_the_markers_around_a_whole_video(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_in: str
) -> None:
    image, video = "{{ '<|vision_start|><|image_pad|><|vision_end|>' }}", "{{ '<|video_pad|>' }}"
    template = image + "{{ '<|vision_start|><|video_pad|><|vision_end|>' }}"
    text = template if kept_in.endswith("jinja") else json.dumps({"chat_template": template})
    (tmp_path / kept_in).write_text(text)
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "cosmos3_edge"}')
    assert vllm_command.chat_template(tmp_path) is None, "vLLM replaces them itself for Edge, and needs them"
    config.write_text('{"model_type": "qwen3_vl"}')
    assert vllm_command.chat_template(tmp_path) == image + video
    monkeypatch.setattr(vllm_command, "version", lambda _: "4.57.1")
    assert vllm_command.chat_template(tmp_path) is None, "that processor needs them, and takes them away"


def test_a_template_without_these_markers_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert vllm_command.chat_template(tmp_path) is None
    (tmp_path / "chat_template.jinja").write_text("{{ '<|video_pad|>' }}")
    assert vllm_command.chat_template(tmp_path) is None


def test_a_smaller_plan_has_fewer_requests_and_tokens(checkpoint_dir: Path, tmp_path: Path) -> None:
    plan = vllm_command.VllmPlan(context=1, sequences=256, gpus=1)
    sizes = []
    for one in (plan, plan.smaller(), plan.smaller().smaller()):
        command = dict(pairwise(vllm_command.serve_command(checkpoint_dir, one, tmp_path, tmp_path)))
        sizes.append((command["--max-num-seqs"], command["--max-num-batched-tokens"]))
    assert sizes == [("256", "16384"), ("64", "4096"), ("16", "2048")]


@needs_vllm
def test_a_full_gpu_is_an_error_before_the_start(
    driver: Path, checkpoint_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.write_text("300, 24564\n")
    monkeypatch.setattr("cosmos_batch.engines.reasoner.vllm.engine.gpus_here", lambda: 1)
    with pytest.raises(Failure, match="Other programs hold the GPU's memory") as raised:
        factory.create_engine("vllm").load(checkpoint_dir)
    assert "nvidia-smi" in raised.value.error.remedy


@pytest.mark.parametrize(("release", "has_it"), [("0.19.1", False), ("0.30.0", True), ("0.32.0+cpu", True)])
def test_room_for_answers_that_grow_is_kept_where_the_release_can(
    release: str, has_it: bool, checkpoint_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image for older drivers has vLLM 0.19.1, which does not start with an option that it does not know."""
    monkeypatch.setattr(vllm_command, "version", lambda _: release)
    command = vllm_command.serve_command(checkpoint_dir, vllm_command.VllmPlan(1, 1, 1), tmp_path, tmp_path)
    assert ("--watermark" in command) is has_it


@pytest.mark.parametrize(
    ("release", "theirs"),
    [
        ("0.19.1", True),
        ("0.21.0", True),
        ("0.23.0", False),
        ("0.23.1rc0.dev5+gabc", False),
        ("0.32.0+cpu", False),
        ("1.0", False),
    ],
)
def test_cosmos_3_needs_nvidias_plugin_in_old_releases(
    release: str, theirs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plugins that `VLLM_PLUGINS` does not name are not loaded."""
    monkeypatch.setattr(vllm_command, "version", lambda _: release)
    (tmp_path / "config.json").write_text('{"model_type": "cosmos3_omni"}')
    options = dict(pairwise(vllm_command.serve_command(tmp_path, vllm_command.VllmPlan(1, 1, 1), tmp_path, tmp_path)))
    architecture = "Cosmos3ReasonerForConditionalGeneration" if theirs else "Cosmos3ForConditionalGeneration"
    assert json.loads(options["--hf-overrides"]) == {"architectures": [architecture]}
    plugins = vllm_command.serve_environment(1, None, tmp_path)["VLLM_PLUGINS"].split(",")
    assert plugins == ["cosmos_batch", *(["register_cosmos3"] if theirs else [])]
