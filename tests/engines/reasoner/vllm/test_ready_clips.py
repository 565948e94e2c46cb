"""Clips whose patches our threads cut, against what vLLM and transformers compute of the same frames."""

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cosmos_batch.demo.checkpoint import build_random_checkpoint
from cosmos_batch.engines.reasoner.vllm import plugin, ready_clips
from cosmos_batch.engines.reasoner.vllm.clip_patches import PatchSizes, cut_patches
from tests.support.real_vllm import needs_vllm

SIZES = PatchSizes(patch=16, merge=2, frames=2)


def some_frames(count: int, height: int, width: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 256, (count, height, width, 3), np.uint8)


@pytest.mark.parametrize("shape", [(4, 64, 96), (5, 96, 64), (1, 32, 32)], ids=str)
def test_patches_and_grid_are_those_of_transformers(shape: tuple[int, int, int]) -> None:
    import torch
    from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor

    frames = some_frames(*shape)
    processor = Qwen3VLVideoProcessor(patch_size=16, merge_size=2, temporal_patch_size=2)
    theirs, *grid = processor.patchify(
        torch.from_numpy(frames).permute(0, 3, 1, 2).contiguous()[None],
        patch_size=16,
        merge_size=2,
        temporal_patch_size=2,
    )
    np.testing.assert_array_equal(cut_patches(frames, SIZES), theirs[0].numpy())
    assert SIZES.grid(frames) == tuple(grid)


def test_only_frames_of_whole_tokens_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_clips, "_sizes", SIZES)
    assert isinstance(ready_clips.with_patches(some_frames(4, 64, 64), {}), ready_clips.ReadyMetadata)
    assert type(ready_clips.with_patches(some_frames(4, 60, 64), {})) is dict


def test_without_the_processor_no_patches_are_cut() -> None:
    assert type(ready_clips.with_patches(some_frames(4, 64, 64), {"fps": 4})) is dict


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Provide our warnings in vLLM's log. What `plugin.register` replaces, other than classes, is put back."""
    from vllm.renderers import hf
    from vllm.renderers.base import BaseRenderer

    ready_clips.served_models()  # their modules register processors themselves when they are imported
    monkeypatch.setattr(BaseRenderer, "_warmup_mm_processor", BaseRenderer._warmup_mm_processor)
    monkeypatch.setattr(hf, "maybe_make_thread_pool", hf.maybe_make_thread_pool)
    warnings: list[str] = []

    def note(_: logging.Logger, text: str, *arguments: object) -> None:
        if text.startswith("This release of vLLM"):
            warnings.append(text % arguments)

    monkeypatch.setattr("logging.Logger.warning", note)
    return warnings


def without(monkeypatch: pytest.MonkeyPatch, of: type, name: str) -> None:
    """Have a class and those that it inherits from lack a method."""
    for one in of.__mro__:
        if name in vars(one):
            monkeypatch.delattr(one, name)


@needs_vllm
def test_a_release_that_moved_the_processor_prepares_clips_itself_and_says_so(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    from vllm.model_executor.models import qwen3_vl

    monkeypatch.delattr(qwen3_vl, "Qwen3VLMultiModalProcessor")
    plugin.register()
    [warning] = said
    assert "in its own way, which is slower" in warning and "Qwen3VLMultiModalProcessor" in warning


@needs_vllm
@pytest.mark.parametrize(
    ("of", "name"),
    [
        ("Qwen3VLMultiModalProcessor", "_apply_hf_processor_main"),
        ("Qwen3VLMultiModalProcessor", "_get_hf_mm_inputs"),
        ("Qwen3VLProcessingInfo", "_get_video_second_idx"),
        ("Qwen3VLProcessingInfo", "_get_vision_info"),
        ("Qwen3VLProcessingInfo", "get_video_processor"),
    ],
)
def test_a_release_that_moved_a_method_prepares_clips_itself_and_says_so(
    of: str, name: str, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    from vllm.model_executor.models import qwen3_vl
    from vllm.multimodal import MULTIMODAL_REGISTRY

    monkeypatch.setattr(MULTIMODAL_REGISTRY, "register_processor", lambda *_, **__: pytest.fail("it was registered"))
    without(monkeypatch, getattr(qwen3_vl, of), name)
    plugin.register()
    [warning] = said
    assert "in its own way, which is slower" in warning and name in warning


@needs_vllm
def test_a_release_that_warms_up_in_another_way_keeps_its_copies_of_the_tokenizer_and_says_so(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    from vllm.renderers import hf
    from vllm.renderers.base import BaseRenderer

    without(monkeypatch, BaseRenderer, "_warmup_mm_processor")
    make_pool = hf.maybe_make_thread_pool
    plugin.register()
    [warning] = said
    assert "warms up in its own way" in warning and hf.maybe_make_thread_pool is make_pool


@needs_vllm
def test_a_release_without_the_list_of_models_inspects_them_in_a_process_and_says_so(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    import vllm

    monkeypatch.delitem(vars(vllm), "ModelRegistry", raising=False)
    monkeypatch.setattr(vllm, "__getattr__", absent)
    plugin.register()
    [warning] = said
    assert "starts another process to inspect a model" in warning


def absent(name: str) -> None:
    """Take the place of the function with which a module imports names late, and find none."""
    raise AttributeError(name)


_COMPARE = """
import sys
import numpy as np
from vllm.config import ModelConfig
from vllm.multimodal import MULTIMODAL_REGISTRY
from cosmos_batch.engines.reasoner.vllm import plugin, ready_clips
from tests.engines.reasoner.vllm.test_ready_clips import some_frames

config = ModelConfig(sys.argv[1], dtype="float32", mm_processor_cache_gb=0)
plain = MULTIMODAL_REGISTRY.create_processor(config)
ready_clips.register()
ready = MULTIMODAL_REGISTRY.create_processor(config)
asked = {"called": 0}
theirs = type(ready).__mro__[1]._apply_hf_processor_main
def counted(*arguments, **named):
    asked["called"] += 1
    return theirs(*arguments, **named)
type(ready).__mro__[1]._apply_hf_processor_main = counted

VIDEO = [config.hf_config.vision_start_token_id, config.hf_config.video_token_id, config.hf_config.vision_end_token_id]

def compare(*shapes, calls):
    videos = []
    for count, height, width in shapes:
        metadata = {"fps": 24.0, "frames_indices": [n * 6 for n in range(count)], "total_num_frames": count * 6,
                    "do_sample_frames": False}
        frames = some_frames(count, height, width)
        videos.append((frames, ready_clips.with_patches(frames, metadata)))
    prompt = [1, 2, *VIDEO * len(videos), 3]
    asked["called"] = 0
    of_ready = ready(prompt, ready.info.parse_mm_data({"video": videos}))
    assert asked["called"] == calls, asked
    of_plain = plain(prompt, plain.info.parse_mm_data({"video": [(f, dict(m)) for f, m in videos]}))
    assert of_ready["prompt_token_ids"] == of_plain["prompt_token_ids"]
    assert of_ready["mm_placeholders"] == of_plain["mm_placeholders"] or all(
        (a.offset, a.length) == (b.offset, b.length)
        for a, b in zip(of_ready["mm_placeholders"]["video"], of_plain["mm_placeholders"]["video"], strict=True)
    )
    for a, b in zip(of_ready["mm_kwargs"]["video"], of_plain["mm_kwargs"]["video"], strict=True):
        assert a.keys() == b.keys(), (a.keys(), b.keys())
        for name in a:
            mine, other = a[name].data, b[name].data
            assert type(mine) is type(other), name
            assert getattr(mine, "dtype", None) == getattr(other, "dtype", None), (name, mine.dtype, other.dtype)
            np.testing.assert_array_equal(np.asarray(mine), np.asarray(other))

compare((4, 128, 96), calls=0)
compare((5, 96, 128), calls=0)
compare((4, 128, 96), (6, 64, 160), calls=0)
compare((16, 160, 160), calls=1)  # more pixels than the processor takes: it shrinks them
print("the same")
"""


@needs_vllm
@pytest.mark.slow
def test_the_processor_gives_the_model_exactly_what_vllms_own_gives(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _COMPARE, str(build_random_checkpoint(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.endswith("the same\n"), done.stderr
