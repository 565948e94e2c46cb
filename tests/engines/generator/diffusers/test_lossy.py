"""Lossy modes: off by default, and if configured they do what their names say, or the engine does not load."""

import asyncio
import math
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmos_batch.catalogue.generation import LossyMode
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.engines.generator.diffusers import acceleration, fp8_attention, lossy
from cosmos_batch.engines.generator.diffusers.acceleration import Accelerations
from cosmos_batch.engines.generator.diffusers.checkpoint import LoadedCheckpoint, import_libraries, load_checkpoint
from cosmos_batch.engines.generator.diffusers.engine import DiffusersEngine
from cosmos_batch.engines.generator.outputs import GeneratedMedia
from cosmos_batch.engines.job_files import GenerationFiles
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.protocol import LossyEngine
from tests.engines.generator.diffusers.test_acceleration import LAYERS, generate_media, same
from tests.support import generations, generator_jobs

STEPS = 4  # with one computed step at each end, the second step is skipped
SMALL = {**generator_jobs.SMALL, "steps": STEPS, "seed": 1}
ACTIONS = {**generator_jobs.ACTIONS, "steps": STEPS, "seed": 1}
VIDEO = {"mode": "t2v", **SMALL, "num_frames": 5}
CONTROLS = {"mode": "transfer", "controls": {"edge": {}}, "frames_per_chunk": 9, **SMALL, "num_frames": 13}
NOISE_STREAM_WEIGHTS = {
    *(f"self_attn.{name}.weight" for name in ("add_q_proj", "add_k_proj", "add_v_proj", "to_add_out")),
    *(f"mlp_moe_gen.{name}.weight" for name in ("gate_proj", "up_proj", "down_proj")),
}


def loaded(checkpoint: Path, *modes: LossyMode) -> LoadedCheckpoint:
    import_libraries(Journal())
    return load_checkpoint(checkpoint, None, False, Accelerations(), Journal(), modes)


@pytest.fixture(scope="module")
def exact(checkpoint: Path) -> LoadedCheckpoint:
    return loaded(checkpoint)


@pytest.fixture(scope="module")
def skipping(checkpoint: Path) -> LoadedCheckpoint:
    return loaded(checkpoint, "stepCache")


@pytest.fixture
def skipping_after_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute one step instead of four at each end, so that four steps suffice to skip one."""
    for name in ("FIRST", "LAST"):
        monkeypatch.setattr(f"cosmos_batch.engines.generator.diffusers.transformer.{name}", 1)


def parts(rendered: GeneratedMedia) -> list[np.ndarray]:
    """Return frames, sound and actions as arrays."""
    sound = [] if rendered.sound is None else [rendered.sound.samples]
    return [np.stack([*rendered.frames]), *sound, *([] if rendered.actions is None else [rendered.actions])]


@pytest.mark.parametrize(
    ("parameters", "medium_name", "passes"),
    [
        ({"mode": "t2i", **SMALL}, None, 2),
        ({**VIDEO, "sound": True}, None, 2),
        (CONTROLS, "clip", 3 * 2),  # two chunks
        ({"mode": "policy", **ACTIONS}, "clip", 1),
    ],
    ids=lambda value: value["mode"] if isinstance(value, dict) else None,
)
def test_step_cache_skips_the_layers_in_every_second_step_in_the_middle(
    exact: LoadedCheckpoint,
    skipping: LoadedCheckpoint,
    skipping_after_one_step: None,
    calls: list[int],
    request: pytest.FixtureRequest,
    parameters: dict[str, Any],
    medium_name: str | None,
    passes: int,
) -> None:
    medium = request.getfixturevalue(medium_name) if medium_name else None
    expected = generate_media(exact, parameters, medium)
    computed = len(calls)
    calls.clear()
    skipped = generate_media(skipping, parameters, medium)
    assert len(calls) == computed - passes * LAYERS
    assert not same(skipped, expected), "skipped steps must change the output"
    for one, other in zip(parts(skipped), parts(expected), strict=True):
        assert one.shape == other.shape and np.isfinite(one).all()
    assert skipping.omni.transformer._changes == {}, "the step cache must be freed at the end of a job"


def test_step_cache_computes_the_first_and_last_four_steps(exact: LoadedCheckpoint, skipping: LoadedCheckpoint) -> None:
    from cosmos_batch.engines.generator.diffusers.transformer import is_step_reused

    assert [step for step in range(35) if is_step_reused(step, 35)] == list(range(4, 31, 2))
    assert [step for step in range(8) if is_step_reused(step, 8)] == []
    assert same(generate_media(skipping, VIDEO), generate_media(exact, VIDEO))


def test_a_skipped_step_reuses_the_last_change_of_the_same_guidance_pass(skipping: LoadedCheckpoint) -> None:
    """The output of a skipped step is its input plus the change of the step before, for each pass separately."""
    import torch

    transformer = skipping.omni.transformer
    noise, added = torch.ones(3, 4), {"cond": 1.0, "uncond": 10.0}
    change = 0.0

    def through(_self: Any, noise: Any, *_: Any) -> Any:
        return noise + change

    with pytest.MonkeyPatch.context() as patch, transformer.prompt_cache():
        patch.setattr(
            "cosmos_batch.engines.generator.diffusers.transformer.PromptCachingTransformer._through_layers", through
        )
        for step in (3, 4):
            for name, of_pass in added.items():
                change = of_pass * (step == 3)
                with transformer.cache_context(name, step_index=step, sigma=1.0, num_inference_steps=12):
                    behind = transformer._through_layers(noise * step)
                assert torch.equal(behind, noise * step + of_pass)


@pytest.fixture
def fp8(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the transformer in bfloat16 and FP8. PyTorch computes FP8 on a CPU; torchao's check of it is disabled."""
    import torch
    from torch._inductor import config

    monkeypatch.setattr("torchao.quantization.quant_api._check_hardware_support", lambda _granularity: None)
    transformer = loaded(checkpoint).omni.transformer.to(torch.bfloat16)
    before = config.save_config_portable()
    lossy.quantize_to_fp8(transformer)
    assert config.save_config_portable() == before, "the compiler's settings must stay unchanged for all other layers"
    return transformer


def test_only_the_weights_of_the_noise_stream_are_in_fp8(fp8: Any) -> None:
    import torch

    for layer in fp8.layers:
        weights = {name: weight for name, weight in layer.named_parameters() if type(weight) is not torch.nn.Parameter}
        assert weights.keys() == NOISE_STREAM_WEIGHTS
        for weight in weights.values():
            assert weight.qdata.dtype == torch.float8_e4m3fn
            assert weight.scale.shape == (weight.shape[0], 1), "a scale for each row"
    outside = [one for name, one in fp8.named_parameters() if not name.startswith("layers.")]
    assert {type(weight) for weight in outside} == {torch.nn.Parameter}
    lossy.quantize_to_fp8(fp8)  # weights in FP8 already stay unchanged


def test_fp8_layers_are_close_to_exact_layers_and_compiled_once(checkpoint: Path, fp8: Any) -> None:
    import torch
    from torch._dynamo.testing import CompileCounter

    exact = loaded(checkpoint).omni.transformer.to(torch.bfloat16)
    attention = fp8.layers[0].self_attn
    noise = torch.Generator().manual_seed(1)

    def random(*shape: int) -> Any:
        return torch.randn(*shape, generator=noise).to(torch.bfloat16)

    def inputs_of(tokens: int) -> list[Any]:
        heads = (attention.num_key_value_heads, attention.head_dim)
        cos_sin = [random(tokens, 1, attention.head_dim) for _ in range(2)]
        return [random(7, *heads), random(7, *heads), random(tokens, attention.to_q.in_features), *cos_sin]

    torch._dynamo.reset()
    counter = CompileCounter()
    acceleration.compile_layers(fp8, backend=counter)
    with torch.no_grad():
        for tokens in (20, 33):
            for one, other in zip(fp8.layers, exact.layers, strict=True):
                inputs = inputs_of(tokens)
                added = other(*inputs) - inputs[2]
                apart = one(*inputs) - other(*inputs)
                assert 0 < apart.norm() < 0.1 * added.norm()
    torch._dynamo.reset()
    assert counter.frame_count == 1, "one graph for all layers and sizes"


@pytest.mark.parametrize(
    ("modes", "offload", "capability", "message"),
    [
        (("fp8",), False, "", "fp8: impossible here, because there is no GPU"),
        (("fp8", "stepCache"), False, "8.6\n", "the GPU has compute capability 8.6"),
        (("stepCache",), True, "9.0\n", "stepCache: impossible here, because the layers wait in the host's memory"),
    ],
)
def test_engine_does_not_load_with_an_impossible_lossy_mode(
    checkpoint: Path, driver: Path, modes: tuple[LossyMode, ...], offload: bool, capability: str, message: str
) -> None:
    driver.write_text(capability)
    engine = DiffusersEngine()
    engine.guardrails, engine.lossy, engine.plan = False, modes, ParallelPlan(offload=offload)
    with pytest.raises(Failure, match=message) as raised:
        engine.load(checkpoint)
    assert "config.json" in raised.value.error.remedy and not raised.value.error.retryable


def test_gpu_with_fp8_is_accepted(driver: Path) -> None:
    driver.write_text("8.9\n")
    lossy.refuse_lossy_modes(["fp8", "stepCache"], offload=False)


def test_engine_uses_the_configured_lossy_modes(
    checkpoint: Path, tmp_path: Path, skipping_after_one_step: None, calls: list[int]
) -> None:
    engine = DiffusersEngine()
    assert isinstance(engine, LossyEngine) and engine.lossy == ()
    as_it_is = engine.compiled_for()
    engine.guardrails, engine.lossy = False, ["stepCache"]
    assert engine.compiled_for() != as_it_is, "compiled code of another mode must not be reused"
    engine.load(checkpoint)
    asyncio.run(engine.generate(generations.settled(VIDEO, guardrails=False), GenerationFiles(None, {}), tmp_path))
    engine.close()
    assert len(calls) == 2 * (STEPS - 1) * LAYERS
    assert any("lossy: stepCache" in line for line in engine.startup_logs)
    warning = import_module("diffusers.quantizers.torchao.torchao_quantizer").logger
    assert warning.disabled, "its warning about torchao's checkpoints must not get into documents"


def attended(query: Any, keys: Any, values: Any, **scales: Any) -> Any:
    """Return exact attention of [batch, tokens, heads, width], as FlashAttention 3's kernel computes it in FP8."""
    import torch

    assert {one.dtype for one in (query, keys, values)} == {torch.float8_e4m3fn}
    batch, groups = query.shape[0], keys.shape[2]
    exact = []
    for one, name in ((query, "q_descale"), (keys, "k_descale"), (values, "v_descale")):
        assert scales[name].shape == (batch, groups) and scales[name].dtype == torch.float32
        grouped = one.float().unflatten(2, (groups, -1)) * scales[name][:, None, :, None, None]
        exact.append(grouped.flatten(2, 3).transpose(1, 2))
    return torch.nn.functional.scaled_dot_product_attention(*exact, enable_gqa=True).transpose(1, 2)


def random_layer(checkpoint: Path, layer: int = 0) -> Any:
    """Return a layer whose normalizations and projections have other weights in each row and column."""
    import torch

    chosen = loaded(checkpoint).omni.transformer.layers[layer]
    noise = torch.Generator().manual_seed(layer)
    for name, parameter in chosen.named_parameters():
        if "norm" in name or any(part in name for part in ("to_k", "to_v", "add_k_proj", "add_v_proj")):
            parameter.data = torch.randn(parameter.shape, generator=noise)
    return chosen


def attended_inputs(layer: Any, tokens: int) -> list[Any]:
    """Return the queries, keys and values, [1, tokens, heads, width], that a layer passes to its kernel."""
    import torch

    noise, seen = torch.Generator().manual_seed(2), list[Any]()

    def kernel(query: Any, keys: Any, values: Any) -> Any:
        seen.extend((query, keys, values))
        return query

    before, layer.kernel = layer.kernel, kernel
    width = layer.input_layernorm.weight.numel()
    text, video = (10 * torch.randn(count, width, generator=noise) for count in (7, tokens))
    angles = torch.rand(7 + tokens, 1, layer.self_attn.head_dim, generator=noise) * 6
    cos, sin = angles.cos(), angles.sin()
    _, (key, value) = layer.read(text, cos[:7], sin[:7])
    layer.forward(key, value, video, cos[7:], sin[7:])
    layer.kernel = before
    return seen


def test_attention_in_fp8_is_near_to_exact_attention(checkpoint: Path) -> None:
    """One head of the values is a thousand times as large as the others, which would lose their bits with one scale."""
    import torch

    layer = random_layer(checkpoint)
    attention = layer.self_attn
    heads, width = attention.num_key_value_heads, attention.head_dim
    for linear in (attention.to_v, attention.add_v_proj):
        linear.weight.data[width:] *= 1000
    inputs = attended_inputs(layer, 50)
    exact = torch.nn.functional.scaled_dot_product_attention(
        *(one.transpose(1, 2) for one in inputs), enable_gqa=True
    ).transpose(1, 2)
    apart = (fp8_attention.attention_in_fp8(attended, layer)(*inputs) - exact).unflatten(2, (heads, -1))
    for head, one in enumerate(exact.unflatten(2, (heads, -1)).unbind(2)):
        assert 0 < apart[:, :, head].norm() < 0.1 * one.norm()


def test_no_number_is_larger_than_its_scale_allows(checkpoint: Path) -> None:
    """The inputs that make a projection largest reach the bound, so it is not a hundred times too large."""
    import torch

    layer = random_layer(checkpoint)
    attention = fp8_attention.attention_in_fp8(attended, layer)
    scales = (attention.query_scale, attention.keys_scale, attention.values_scale)
    for tensor, scale in zip(attended_inputs(layer, 500), scales, strict=True):
        largest = tensor.abs().amax(dim=(1, 3)).unflatten(1, (scale.shape[1], -1)).amax(dim=2)
        assert (largest <= scale * fp8_attention.LARGEST).all()
        assert (largest > 0.1 * scale * fp8_attention.LARGEST).all()
    norm, linear, heads = layer.input_layernorm, layer.self_attn.to_v, layer.self_attn.num_key_value_heads
    bound = fp8_attention.largest_of_heads(linear, norm, heads)
    worst = torch.stack([linear(norm(row)) for row in linear.weight * norm.weight]).diagonal()
    torch.testing.assert_close(worst.view(heads, -1).amax(dim=1), bound, rtol=0.01, atol=0)


def test_a_bound_is_that_of_the_larger_stream(checkpoint: Path) -> None:
    layer = random_layer(checkpoint)
    attention = layer.self_attn
    keys, values = fp8_attention.largest_keys(layer), fp8_attention.largest_values(layer)
    for norm in (attention.norm_k, attention.norm_added_k):
        before = norm.weight.data
        norm.weight.data = 100 * before
        assert fp8_attention.largest_keys(layer) == fp8_attention.largest_normalized(norm)
        assert (fp8_attention.largest_keys(layer) > 10 * keys).all()
        norm.weight.data = before
    for linear in (attention.to_v, attention.add_v_proj):
        before = linear.weight.data
        linear.weight.data = 100 * before
        assert (fp8_attention.largest_values(layer) > 10 * values).all()
        linear.weight.data = before


def test_a_norm_for_the_noise_bounds_the_keys_of_a_text(checkpoint: Path) -> None:
    """Cosmos3-Edge normalizes them for the noise alone."""
    import torch

    layer = random_layer(checkpoint)
    attention = layer.self_attn
    attention.k_norm_und_for_gen = torch.nn.RMSNorm(attention.head_dim)
    attention.k_norm_und_for_gen.weight.data.fill_(1000)
    assert fp8_attention.largest_keys(layer) == fp8_attention.largest_normalized(attention.k_norm_und_for_gen)


def test_keys_of_a_text_without_normalization_have_a_bound(checkpoint: Path) -> None:
    """A rotation by 45 degrees makes of two equal numbers one that is larger by the root of two."""
    import torch

    layer = random_layer(checkpoint)
    attention = layer.self_attn
    attention.norm_k, attention.k_norm_und_for_gen = torch.nn.Identity(), None
    attention.norm_added_k.weight.data.zero_()
    attention.to_k.weight.data = torch.ones_like(attention.to_k.weight)
    layer.input_layernorm.weight.data.fill_(1)
    width = layer.input_layernorm.weight.numel()
    angle = torch.full((1, 1, attention.head_dim), math.pi / 4)
    _, (key, _) = layer.read(-torch.ones(1, width), angle.cos(), angle.sin())
    largest = key.abs().max()
    torch.testing.assert_close(largest, torch.tensor(width * math.sqrt(2)), rtol=1e-3, atol=0)
    torch.testing.assert_close(fp8_attention.largest_keys(layer).max(), largest, rtol=1e-3, atol=0)


def test_a_bias_is_part_of_a_bound() -> None:
    import torch

    linear, norm = torch.nn.Linear(8, 4), torch.nn.RMSNorm(8)
    with torch.no_grad():
        linear.weight.zero_()
        linear.bias.copy_(torch.tensor([1.0, -3.0, 2.0, 0.5]))
        assert fp8_attention.largest_of_heads(linear, norm, 2).tolist() == [3.0, 2.0]


def test_a_number_that_rounding_made_larger_than_its_bound_is_clamped() -> None:
    import torch

    tensor = torch.tensor([1.0, 1.2, -1.2]).view(1, 3, 1, 1)
    scale = torch.full((1, 1), 1.0 / fp8_attention.LARGEST)
    assert (fp8_attention.to_fp8(tensor, scale).float() * scale).flatten().tolist() == pytest.approx([1.0, 1.0, -1.0])


def test_weights_in_fp8_have_nearly_the_same_bound(checkpoint: Path) -> None:
    import torch
    from torchao.quantization import Float8WeightOnlyConfig, quantize_

    layer = random_layer(checkpoint)
    before = fp8_attention.largest_values(layer)
    quantize_(layer.self_attn.add_v_proj, Float8WeightOnlyConfig())
    assert type(layer.self_attn.add_v_proj.weight) is not torch.nn.Parameter
    torch.testing.assert_close(fp8_attention.largest_values(layer), before, rtol=0.05, atol=0)


def test_zeros_attend_to_nothing_in_fp8(checkpoint: Path) -> None:
    import torch

    layer = random_layer(checkpoint)
    for norm in (layer.input_layernorm, layer.input_layernorm_moe_gen):
        norm.weight.data.zero_()
    zeros = [torch.zeros_like(one) for one in attended_inputs(layer, 5)]
    assert torch.equal(fp8_attention.attention_in_fp8(attended, layer)(*zeros), zeros[0])


def test_one_compiled_graph_attends_in_fp8_in_all_layers(checkpoint: Path) -> None:
    """Their scales differ, and so do the sizes of videos."""
    import torch
    from torch._dynamo.testing import CompileCounter

    from cosmos_batch.engines.generator.diffusers.acceleration import compile_layers

    transformer = loaded(checkpoint).omni.transformer
    layers = [random_layer(checkpoint, number) for number in range(LAYERS)]
    for layer in layers:
        layer.kernel = fp8_attention.attention_in_fp8(attended, layer)
    assert not torch.equal(layers[0].kernel.values_scale, layers[1].kernel.values_scale)
    torch._dynamo.reset()
    counter = CompileCounter()
    transformer.layers = torch.nn.ModuleList(layers)
    compile_layers(transformer, backend=counter)
    width, head = layers[0].input_layernorm.weight.numel(), layers[0].self_attn
    with torch.no_grad(), torch.fx.experimental._config.patch(use_duck_shape=False):
        for tokens, words in ((50, 7), (80, 9)):
            cos = sin = torch.ones(tokens, 1, head.head_dim)
            key = value = torch.ones(words, head.num_key_value_heads, head.head_dim)
            for layer in layers:
                layer(key, value, torch.ones(tokens, width), cos, sin)
    torch._dynamo.reset()
    assert counter.frame_count == 1


@pytest.mark.parametrize(("output", "fits"), [("9.0\n", True), ("8.9\n", False), ("10.0\n", False), ("", False)])
def test_attention_in_fp8_needs_a_hopper(driver: Path, output: str, fits: bool) -> None:
    driver.write_text(output)
    if fits:
        lossy.refuse_lossy_modes(["fp8Attention"], offload=False)
        return
    with pytest.raises(Failure, match="fp8Attention: impossible here, because FlashAttention 3 does not run"):
        lossy.refuse_lossy_modes(["fp8Attention"], offload=False)


def test_attention_in_fp8_does_not_load_without_flash_attention(checkpoint: Path) -> None:
    """On a CPU no kernel is loaded."""
    transformer = loaded(checkpoint).omni.transformer
    with pytest.raises(Failure, match=r"FlashAttention 3 .* could not be loaded"):
        lossy.attend_in_fp8(transformer)


def test_every_layer_attends_in_fp8(checkpoint: Path) -> None:
    transformer = loaded(checkpoint).omni.transformer
    for layer in transformer.layers:
        layer.kernel = attended
    lossy.attend_in_fp8(transformer)
    assert [(type(layer.kernel), layer.kernel.kernel) for layer in transformer.layers] == [
        (fp8_attention.Fp8Attention, attended)
    ] * LAYERS
