"""Accelerations do not change the output: each mode with and without them, on the tiny checkpoint."""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.generator.accelerations import PLAIN
from cosmos_batch.engines.compile_cache import cache_variables
from cosmos_batch.engines.generator.diffusers import acceleration
from cosmos_batch.engines.generator.diffusers.acceleration import Accelerations
from cosmos_batch.engines.generator.diffusers.checkpoint import LoadedCheckpoint, import_libraries, load_checkpoint
from cosmos_batch.engines.generator.diffusers.engine import DiffusersEngine
from cosmos_batch.engines.generator.diffusers.generation import generate, settle_prompt_length
from cosmos_batch.engines.generator.inputs import prepare
from cosmos_batch.engines.generator.outputs import GeneratedMedia
from cosmos_batch.engines.job_files import GenerationFiles
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.protocol import CompilingEngine
from tests.support import generations, generator_jobs
from tests.support.generator_jobs import ROWS, SHORT, kind_of

STEPS, LAYERS = 2, 2
GRAPHS = 2  # one of each stream
SMALL = {**generator_jobs.SMALL, "steps": STEPS, "seed": 1}
ACTIONS = {**generator_jobs.ACTIONS, "steps": STEPS, "seed": 1}
CONTROLS = {"mode": "transfer", "controls": {"edge": {}, "blur": {}}, "frames_per_chunk": 9, **SMALL, "num_frames": 13}

# As Diffusers runs the model, but with those accelerations that round otherwise. With all others the output is equal to
# the last bit.
EXACT = replace(PLAIN, shared_timestep=True, asynchronous=True)

Load = Callable[[Accelerations], LoadedCheckpoint]


@pytest.fixture(scope="module")
def load(checkpoint: Path) -> Load:
    def load(measures: Accelerations) -> LoadedCheckpoint:
        import_libraries(Journal())
        return load_checkpoint(checkpoint, None, False, measures, Journal())

    return load


@pytest.fixture(scope="module")
def unmodified(load: Load) -> LoadedCheckpoint:
    return load(PLAIN)


@pytest.fixture(scope="module")
def plain(load: Load) -> LoadedCheckpoint:
    return load(EXACT)


@pytest.fixture(scope="module")
def fast(load: Load) -> LoadedCheckpoint:
    return load(Accelerations())


@pytest.fixture
def reads(fast: LoadedCheckpoint, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record how many tokens each text stream has that a layer computes."""
    from cosmos_batch.engines.generator.diffusers.transformer import TwoStreamLayer

    seen: list[int] = []
    read = TwoStreamLayer.read

    def counted(layer: Any, text: Any, *rest: Any) -> Any:
        seen.append(text.shape[0])
        return read(layer, text, *rest)

    monkeypatch.setattr(TwoStreamLayer, "read", counted)
    return seen


def without_compiler(*_: Any) -> Any:
    """Fail as torch's compiler does on a machine without a C compiler."""
    raise RuntimeError("Failed to find C compiler")


def without_kernel(*_: Any) -> None:
    """Fail as FlashAttention 3 does on a GPU for which it was not built."""
    raise RuntimeError("no kernel image is available")


def generate_media(
    checkpoint: LoadedCheckpoint, parameters: dict[str, Any], medium: Path | None = None, **options: Any
) -> GeneratedMedia:
    generation = generations.settled({**SHORT, **parameters}, kind_of(medium), guardrails=False)
    prepared = settle_prompt_length(checkpoint, prepare(generation, GenerationFiles(medium, {}), lambda: None))
    rendered = generate(checkpoint, prepared, options.get("progress", lambda *_: None))
    return replace(rendered, frames=[*rendered.frames])


def pixels(rendered: GeneratedMedia) -> np.ndarray:
    """Return the frames of an output as one array, [T, H, W, 3]."""
    return np.stack([*rendered.frames])


def nearly_same(one: GeneratedMedia, other: GeneratedMedia) -> bool:
    """Return whether two outputs differ by no more than the rounding of float32."""
    parts = [(rendered.sound.samples if rendered.sound else None, rendered.actions) for rendered in (one, other)]
    close = [
        (first is None and second is None) or np.allclose(first, second, rtol=0, atol=1e-3)
        for first, second in zip(*parts, strict=True)
    ]
    return bool(np.abs(pixels(one).astype(int) - pixels(other)).max() <= 1) and all(close)


def same(one: GeneratedMedia, other: GeneratedMedia) -> bool:
    """Return whether two outputs are equal to the last bit: a CPU computes everything in the same order."""
    sounds = [rendered.sound.samples if rendered.sound else np.zeros(0) for rendered in (one, other)]
    actions = [np.zeros(0) if rendered.actions is None else rendered.actions for rendered in (one, other)]
    return np.array_equal(pixels(one), pixels(other)) and np.array_equal(*sounds) and np.array_equal(*actions)


@pytest.mark.parametrize(
    ("parameters", "medium_name", "prompts"),
    [
        ({"mode": "t2i", **SMALL}, None, 2),
        ({"mode": "t2v", **SMALL, "num_frames": 9}, None, 2),
        ({"mode": "t2v", **SMALL, "num_frames": 9, "sound": True}, None, 2),
        ({"mode": "t2v", **SMALL, "num_frames": 5, "guidance_scale": 1.0}, None, 1),
        ({"mode": "i2v", **SMALL, "num_frames": 9}, "picture", 2),
        ({"mode": "i2v", **SMALL, "num_frames": 9, "sound": True}, "picture", 2),
        ({"mode": "v2v", **SMALL, "num_frames": 13}, "clip", 2),
        ({"mode": "v2v", **SMALL, "num_frames": 13, "sound": True}, "clip", 2),
        (CONTROLS, "clip", 2),  # in two chunks, each with three passes
        ({"mode": "forward_dynamics", "action": ROWS, **ACTIONS}, "picture", 1),
        ({"mode": "inverse_dynamics", **ACTIONS}, "clip", 1),
        ({"mode": "policy", **ACTIONS}, "clip", 1),
    ],
    ids=lambda value: value["mode"] if isinstance(value, dict) else None,
)
def test_accelerations_do_not_change_the_output(
    unmodified: LoadedCheckpoint,
    plain: LoadedCheckpoint,
    fast: LoadedCheckpoint,
    reads: list[int],
    request: pytest.FixtureRequest,
    parameters: dict[str, Any],
    medium_name: str | None,
    prompts: int,
) -> None:
    medium = request.getfixturevalue(medium_name) if medium_name else None
    of_diffusers, expected = (generate_media(one, parameters, medium) for one in (unmodified, plain))
    assert reads == []
    found = generate_media(fast, parameters, medium)
    assert same(found, expected) and nearly_same(found, of_diffusers)
    assert len(reads) == prompts * LAYERS
    assert len(set(reads)) == prompts
    assert fast.omni.transformer._prompts is None, "the prompt cache must be freed at the end of a job"


@pytest.mark.parametrize(
    ("parameters", "medium_name", "frames"),
    [
        ({"mode": "t2v", **SMALL, "num_frames": 9}, None, []),
        ({"mode": "i2v", **SMALL, "num_frames": 9}, "picture", [1]),
        ({"mode": "v2v", **SMALL, "num_frames": 13}, "clip", [5]),  # two latent frames
        ({"mode": "policy", **ACTIONS}, "clip", [1]),
        ({"mode": "inverse_dynamics", **ACTIONS}, "clip", [5]),  # all
    ],
    ids=lambda value: value["mode"] if isinstance(value, dict) else None,
)
def test_vae_encodes_only_frames_that_condition_the_generation(
    fast: LoadedCheckpoint,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    parameters: dict[str, Any],
    medium_name: str | None,
    frames: list[int],
) -> None:
    seen: list[int] = []
    encode = fast.omni.vae.encode

    def counted(video: Any) -> Any:
        seen.append(video.shape[2])
        return encode(video)

    monkeypatch.setattr(fast.omni.vae, "encode", counted)
    generate_media(fast, parameters, request.getfixturevalue(medium_name) if medium_name else None)
    assert seen == frames


def test_failed_job_leaves_no_state_behind(fast: LoadedCheckpoint) -> None:
    parameters = {"mode": "t2v", **SMALL, "num_frames": 5}
    expected = generate_media(fast, parameters)

    def stop(done: int, _total: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate_media(fast, parameters, progress=stop)
    assert fast.omni.transformer._prompts is None and "_encode_video" not in vars(fast.omni)
    assert same(generate_media(fast, parameters), expected)


@pytest.fixture
def compiled(load: Load) -> Iterator[tuple[LoadedCheckpoint, Any]]:
    """Return a checkpoint compiled with a backend that only counts graphs, in place of generating GPU code."""
    import torch
    from torch._dynamo.testing import CompileCounter

    torch._dynamo.reset()
    counter = CompileCounter()
    checkpoint = replace(load(Accelerations()), device="cuda")
    acceleration.compile_layers(checkpoint.omni.transformer, backend=counter)
    yield checkpoint, counter
    torch._dynamo.reset()


@pytest.mark.parametrize("tokens", [0, 1, 300])
def test_a_shared_timestep_is_embedded_as_each_token_would_embed_it(load: Load, tokens: int) -> None:
    import torch

    embedder = load(PLAIN).omni.transformer.time_embedder
    timesteps = torch.randn(1, 256, generator=torch.Generator().manual_seed(1)).expand(tokens, -1)
    expected = embedder(timesteps)
    shared = load(replace(PLAIN, shared_timestep=True)).omni.transformer.time_embedder
    torch.testing.assert_close(shared(timesteps), expected)


def test_compiled_graphs_serve_all_layers_sizes_prompts_and_modes(
    plain: LoadedCheckpoint, compiled: tuple[LoadedCheckpoint, Any], picture: Path, clip: Path
) -> None:
    checkpoint, counter = compiled
    checkpoint.warm_up(Journal())
    assert counter.frame_count == GRAPHS, "compilation must happen in the warm-up"
    for parameters in (
        {"mode": "t2i", **SMALL},
        {"mode": "t2v", **SMALL, "num_frames": 9, "width": 96, "negative_prompt": "Rain. " * 40},
        {"mode": "t2v", **SMALL, "num_frames": 5, "sound": True, "guidance_scale": 1.0},
    ):
        assert same(generate_media(checkpoint, parameters), generate_media(plain, parameters))
    for parameters, medium in (
        ({"mode": "i2v", **SMALL, "num_frames": 5}, picture),
        ({"mode": "v2v", **SMALL, "num_frames": 9, "sound": True}, clip),
        ({"mode": "transfer", "controls": {"blur": {}}, **SMALL, "num_frames": 5}, clip),
        ({"mode": "forward_dynamics", "action": ROWS, **ACTIONS}, picture),
        ({"mode": "policy", **ACTIONS}, picture),
    ):
        generate_media(checkpoint, {**parameters, "steps": 1}, medium)
    assert counter.frame_count == GRAPHS, "a job must not compile anything"


def test_sequence_as_long_as_a_model_width_is_not_compiled_for_that_length(
    compiled: tuple[LoadedCheckpoint, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warm-up may have as many tokens as the model has heads. This model has 2, so the warm-up gets 2 tokens."""
    checkpoint, counter = compiled
    pipeline = type(checkpoint.omni)
    shaped, call = {"num_frames": 1, "height": 64, "width": 32}, pipeline.__call__
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "__call__", lambda omni, **parameters: call(omni, **parameters | shaped))
        checkpoint.warm_up(Journal())
    generate_media(checkpoint, {"mode": "t2v", **SMALL, "num_frames": 5})
    assert counter.frame_count == GRAPHS


def test_failed_compilation_falls_back_to_uncompiled_layers(plain: LoadedCheckpoint, load: Load) -> None:
    checkpoint = replace(load(Accelerations()), device="cuda")
    acceleration.compile_layers(checkpoint.omni.transformer, backend=without_compiler)
    journal = Journal()
    checkpoint.warm_up(journal)
    assert "not compiled" in journal.lines[0] and "Failed to find C compiler" in "".join(journal.lines)
    parameters = {"mode": "t2v", **SMALL, "num_frames": 5}
    assert same(generate_media(checkpoint, parameters), generate_media(plain, parameters))


def test_the_decoder_is_fused_only_on_a_gpu(plain: LoadedCheckpoint, load: Load) -> None:
    from cosmos_batch.engines.generator.diffusers.decoder import ActivatedNorm, ChunkDecodingVae

    assert not isinstance(load(Accelerations()).omni.vae, ChunkDecodingVae)
    checkpoint = load(PLAIN)
    acceleration.accelerate(checkpoint.omni, replace(PLAIN, fused_decoder=True), "cuda", Journal())
    assert isinstance(checkpoint.omni.vae, ChunkDecodingVae)
    norms = [module for module in checkpoint.omni.vae.modules() if isinstance(module, ActivatedNorm)]
    assert norms and all("compute" not in vars(norm) for norm in norms), "nothing is compiled unless it is asked for"


def test_failed_compilation_of_the_decoder_falls_back_to_uncompiled(
    plain: LoadedCheckpoint, load: Load, clip: Path
) -> None:
    from cosmos_batch.engines.generator.diffusers import decoder

    checkpoint, journal = replace(load(Accelerations()), device="cuda"), Journal()
    decoder.fuse_decoder(checkpoint.omni.vae)
    decoder.compile_decoder(checkpoint.omni.vae, backend=without_compiler)
    checkpoint.warm_up(journal)
    assert "not compiled" in journal.lines[0] and "Failed to find C compiler" in "".join(journal.lines)
    for parameters, medium in (({"mode": "t2v", **SMALL, "num_frames": 9}, None), (CONTROLS, clip)):
        frames = [pixels(generate_media(one, parameters, medium)).astype(int) for one in (checkpoint, plain)]
        assert np.abs(frames[0] - frames[1]).max() <= 1  # the decoder rounds otherwise


def test_warm_up_out_of_memory_is_raised_without_retry(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    checkpoint = replace(load(Accelerations()), device="cuda")

    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(checkpoint.omni.vae, "decode", full)
    with pytest.raises(torch.OutOfMemoryError):
        checkpoint.warm_up(Journal())


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, ...]]]:
    """Simulate a Hopper GPU, with PyTorch's attention for FlashAttention 3; return the recorded shapes of its keys."""
    import torch

    seen: list[tuple[int, ...]] = []

    def flash_attn_func(query: Any, key: Any, value: Any) -> Any:
        seen.append(tuple(key.shape))
        one, other, another = (part.transpose(1, 2) for part in (query, key, value))
        return torch.nn.functional.scaled_dot_product_attention(one, other, another, enable_gqa=True).transpose(1, 2)

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setitem(sys.modules, "fa3_fwd_interface", SimpleNamespace(flash_attn_func=flash_attn_func))
    yield seen


def test_flash_attention_gets_keys_of_text_and_noise(
    plain: LoadedCheckpoint, load: Load, hopper: list[tuple[int, ...]]
) -> None:
    checkpoint, journal = load(replace(EXACT, cached_prompts=True)), Journal()
    acceleration.accelerate(checkpoint.omni, replace(EXACT, flash_attention=True), "cuda", journal)
    parameters = {"mode": "t2v", **SMALL, "num_frames": 9}
    assert same(generate_media(checkpoint, parameters), generate_media(plain, parameters))
    attention = checkpoint.omni.transformer.layers[0].self_attn
    heads = (attention.num_key_value_heads, attention.head_dim)
    assert len(seen := hopper) == STEPS * LAYERS * 2 and {shape[2:] for shape in seen} == {heads}
    assert len({shape[1] for shape in seen}) == 2, "noise plus each of the two prompts"
    assert not journal.lines


def test_pytorch_attention_is_used_without_flash_attention(
    plain: LoadedCheckpoint, load: Load, hopper: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setitem(sys.modules, "fa3_fwd_interface", None)
    checkpoint, journal = load(replace(EXACT, cached_prompts=True)), Journal()
    accelerate = partial(
        acceleration.accelerate, checkpoint.omni, replace(EXACT, flash_attention=True), "cuda", journal
    )
    accelerate()
    assert "attention is PyTorch's own" in "".join(journal.lines) and "fa3_fwd_interface" in "".join(journal.lines)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 9))
    accelerate()
    assert len(journal.lines) == 1, "an L40S must not try to load the kernel"
    parameters = {"mode": "t2v", **SMALL, "num_frames": 5}
    assert same(generate_media(checkpoint, parameters), generate_media(plain, parameters)) and hopper == []


def test_failed_flash_attention_falls_back_to_pytorch_attention(
    plain: LoadedCheckpoint, load: Load, hopper: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["fa3_fwd_interface"], "flash_attn_func", without_kernel)
    taken = replace(PLAIN, cached_prompts=True, flash_attention=True)
    checkpoint, journal = (
        replace(load(replace(EXACT, cached_prompts=True)), device="cuda", accelerations=taken),
        Journal(),
    )
    acceleration.accelerate(checkpoint.omni, taken, "cuda", journal)
    checkpoint.warm_up(journal)
    [line] = journal.lines
    assert "attention is PyTorch's own" in line and "no kernel image" in line
    parameters = {"mode": "t2v", **SMALL, "num_frames": 5}
    assert same(generate_media(checkpoint, parameters), generate_media(plain, parameters)) and hopper == []


@pytest.mark.parametrize("flash_attention_fails", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_failed_compilation_leaves_flash_attention_as_it_is(
    load: Load, hopper: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch, flash_attention_fails: bool
) -> None:
    if flash_attention_fails:
        monkeypatch.setattr(sys.modules["fa3_fwd_interface"], "flash_attn_func", without_kernel)
    taken = replace(EXACT, cached_prompts=True, flash_attention=True, compiled=True)
    checkpoint = replace(load(replace(EXACT, cached_prompts=True)), device="cuda", accelerations=taken)
    monkeypatch.setattr(acceleration, "compile_layers", partial(acceleration.compile_layers, backend=without_compiler))
    journal = Journal()
    acceleration.accelerate(checkpoint.omni, taken, "cuda", journal)
    checkpoint.warm_up(journal)
    assert [layer.kernel is None for layer in checkpoint.omni.transformer.layers] == [flash_attention_fails] * LAYERS
    assert (hopper == []) is flash_attention_fails
    noted = [line for line in journal.lines if "slower for it" in line]
    assert len(noted) == 1 + flash_attention_fails and "are not compiled" in noted[-1]
    if flash_attention_fails:
        assert "attention is PyTorch's own" in noted[0] and "no kernel image is available" in noted[0]
    assert "Failed to find C compiler" in "".join(journal.lines)


def test_a_model_that_fails_in_every_way_does_not_load(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, journal = replace(load(Accelerations()), device="cuda"), Journal()

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("illegal memory access")

    monkeypatch.setattr(checkpoint.omni.vae, "decode", fail)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        checkpoint.warm_up(journal)
    assert journal.lines == []


def test_flash_attention_that_is_needed_is_not_disabled(
    load: Load, hopper: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["fa3_fwd_interface"], "flash_attn_func", without_kernel)
    taken = replace(EXACT, cached_prompts=True, flash_attention=True)
    checkpoint = replace(
        load(replace(EXACT, cached_prompts=True)), device="cuda", accelerations=taken, lossy=("fp8Attention",)
    )
    acceleration.accelerate(checkpoint.omni, taken, "cuda", Journal())
    with pytest.raises(RuntimeError, match="no kernel image"):
        checkpoint.warm_up(Journal())
    assert all(layer.kernel is without_kernel for layer in checkpoint.omni.transformer.layers) and hopper == []


def test_a_warm_up_has_two_tokens_for_each_multiprocessor(load: Load, calls: list[int]) -> None:
    """An RTX PRO 6000 has 188 multiprocessors, which is the most of the GPUs that we know."""
    replace(load(replace(EXACT, cached_prompts=True)), device="cuda").warm_up(Journal())
    assert calls and min(calls) >= 2 * 188


def test_layers_are_compiled_only_on_a_gpu(load: Load) -> None:
    layers = load(Accelerations()).omni.transformer.layers
    assert all(layer._compiled_call_impl is None for layer in layers)
    checkpoint = load(PLAIN)
    acceleration.accelerate(checkpoint.omni, replace(PLAIN, compiled=True, cached_prompts=True), "cuda", Journal())
    assert all(layer._compiled_call_impl is not None for layer in checkpoint.omni.transformer.layers)


def test_vae_is_in_channels_last_format_on_a_gpu(plain: LoadedCheckpoint, load: Load) -> None:
    import torch

    checkpoint = load(PLAIN)
    acceleration.accelerate(checkpoint.omni, replace(PLAIN, channels_last=True), "cuda", Journal())
    formats = {5: torch.channels_last_3d, 4: torch.channels_last}
    weights = [weight for weight in checkpoint.omni.vae.parameters() if weight.dim() in formats and weight.shape[1] > 1]
    assert {weight.dim() for weight in weights} == set(formats)
    for weight in weights:
        assert weight.is_contiguous(memory_format=formats[weight.dim()])
    parameters = {"mode": "t2v", **SMALL, "num_frames": 9}
    differences = np.abs(
        pixels(generate_media(checkpoint, parameters)).astype(int) - pixels(generate_media(plain, parameters))
    )
    assert differences.max() <= 1  # convolutions may add in another order


def test_engine_keeps_compiled_code_in_its_caches_folder(
    tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in cache_variables(tmp_path):
        monkeypatch.setenv(name, "elsewhere")
    engine = DiffusersEngine()
    assert isinstance(engine, CompilingEngine)
    assert engine.compiled_for()["diffusers"] == version("diffusers")
    engine.caches = tmp_path
    warmed: list[LoadedCheckpoint] = []
    monkeypatch.setattr(LoadedCheckpoint, "warm_up", lambda checkpoint, _journal: warmed.append(checkpoint))
    engine.load(checkpoint)
    assert len(warmed) == 1, "before the first job"
    engine.close()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "inductor")
    assert engine.startup_seconds.keys() == {"imports", "weights", "compile"}
