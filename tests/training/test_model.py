"""The training's own forward pass is transformers' Qwen3-VL, on the prompts that its processor makes."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cosmos_batch.demo import DEMO_REASON
from training.examples import Batch, Mix, draw_batch
from training.model import Reasoner
from training.tokens import load_tokenizer, model_config
from training.train import load_weights, save, visible

_VIDEO = re.compile(r"(<[\d.]+ seconds><\|vision_start\|>(<\|video_pad\|>)+<\|vision_end\|>)+")
_IMAGE = re.compile(r"(<\|image_pad\|>)+")
_STAMP = re.compile(r"<([\d.]+) seconds><\|vision_start")
_RATE = 10.0
ENCODER = load_tokenizer(DEMO_REASON)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the random weights of a checkpoint, as they are on disk."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("checkpoint")
    save(folder, ENCODER, Reasoner(model_config(ENCODER)).state_dict())
    return folder


def processed(processor: object, batch: Batch, text: str) -> dict[str, torch.Tensor]:
    """Return the same clip and question as transformers' processor prepares them."""
    frames = batch.frames[0].numpy()
    stamps = [float(one) for one in _STAMP.findall(text)]
    if not stamps:
        return processor(
            text=[_IMAGE.sub("<|image_pad|>", text)], images=[Image.fromarray(frames[0])], return_tensors="pt"
        )
    indices = [round(seconds * _RATE) for seconds in stamps for _ in range(2)]
    metadata = {"fps": _RATE, "duration": 9.0, "total_num_frames": 90, "frames_indices": indices}
    return processor(
        text=[_VIDEO.sub("<|video_pad|>", text)],
        videos=[frames],
        video_metadata=[metadata],
        do_sample_frames=False,
        return_tensors="pt",
    )


@pytest.mark.parametrize("images", [0.0, 1.0], ids=["clip", "image"])
def test_logits_and_prompts_are_those_of_transformers(checkpoint: Path, images: float) -> None:
    import transformers

    batch = draw_batch(np.random.default_rng(1), Mix(images, 3.0, 1), ENCODER, clips=1)
    length = int((batch.segments[0] >= 0).sum())
    text = ENCODER.decode(batch.ids[0, :length].tolist(), skip_special_tokens=False)
    theirs = transformers.AutoModelForImageTextToText.from_pretrained(checkpoint, dtype=torch.float32).eval()
    inputs = processed(transformers.AutoProcessor.from_pretrained(checkpoint), batch, text)
    ours = Reasoner(model_config(ENCODER)).eval()
    ours.load_state_dict(load_weights(checkpoint))

    with torch.no_grad():
        expected = theirs(**inputs).logits[0]
        hidden, _ = ours(batch.frames, batch.ids, batch.positions, visible(batch.segments), batch.seen)

    assert inputs["input_ids"][0].tolist() == batch.ids[0, :length].tolist()
    torch.testing.assert_close(ours.logits(hidden)[0, :length], expected, atol=1e-4, rtol=1e-4)


def test_a_question_does_not_see_the_others(checkpoint: Path) -> None:
    """What the model computes for one question about a clip does not depend on the other questions in the sequence."""
    batch = draw_batch(np.random.default_rng(4), Mix(1.0, 3.0, 2), ENCODER, clips=1)
    model = Reasoner(model_config(ENCODER)).eval()
    model.load_state_dict(load_weights(checkpoint))
    second = batch.segments[0] == 2
    changed = batch.ids.clone()
    changed[0, batch.segments[0] == 1] = 5

    with torch.no_grad():
        hidden, other = (
            model(batch.frames, ids, batch.positions, visible(batch.segments), batch.seen)[0][0, second]
            for ids in (batch.ids, changed)
        )

    torch.testing.assert_close(hidden, other)
