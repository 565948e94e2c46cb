"""Our captions, which every engine is sent, equal those of Diffusers' own `tokenize_prompt` in each mode."""

from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.catalogue.generation import SIZES
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.engines.generator.captions import captions_for, protect_json
from cosmos_batch.engines.generator.diffusers.engine import DiffusersEngine
from cosmos_batch.engines.generator.inputs import action_canvas
from tests.engines.generator.argument_models.table import CASES, Case
from tests.engines.generator.diffusers.conftest import FOLLOWED, Make
from tests.support.caption_tokens import Ids, ids_of

ODD = ("Does it pour?", "He waits...", "Ein Röhrchen, 水", "A robot. Pours ")
ALL_CASES = (
    *CASES,
    *(Case(f"t2v of {text}", {"mode": "t2v", "negativePrompt": text}, prompt=text) for text in ODD),
    *(Case(f"policy of {text}", {"mode": "policy", "domainName": "av"}, "image", prompt=text) for text in ODD),
    Case("t2v of JSON with templates", {"mode": "t2v", "useDurationTemplate": True}, prompt={"subject": "a robot"}),
    Case("transfer with templates", {"mode": "transfer", "depth": "d.mp4", "numFrames": 201}),
)


@pytest.fixture
def omni(engine: DiffusersEngine) -> Any:
    assert engine._checkpoint is not None
    return engine._checkpoint.omni


def read_by_diffusers(omni: Any, generation: Generation) -> tuple[Ids, Ids]:
    """Return the token ids of Diffusers' `tokenize_prompt`, called as its pipelines call it."""
    assert (generation.size is not None and generation.resolution is not None) or generation.action is None
    size = (
        action_canvas(generation.resolution, generation.size)
        if generation.action and generation.resolution and generation.size
        else generation.size
    )
    assert size is not None
    action = (
        {"action_mode": generation.mode, "action_view_point": generation.action.view_point} if generation.action else {}
    )
    ids: tuple[Ids, Ids] = omni.tokenize_prompt(
        generation.prompt,
        generation.negative_prompt,
        num_frames=generation.num_frames,
        height=size.height,
        width=size.width,
        fps=generation.fps,
        use_system_prompt=generation.action is None,
        add_resolution_template=generation.use_resolution_template,
        add_duration_template=generation.use_duration_template,
        **action,
    )
    return ids


def test_captions_equal_those_of_diffusers(omni: Any) -> None:
    for case in ALL_CASES:
        generation = case.generation()
        assert generation.size is not None
        if generation.transfer is None:
            ids = ids_of(omni.text_tokenizer, captions_for(generation, generation.size))
            assert ids == read_by_diffusers(omni, generation), case.name


def test_transfer_has_its_own_system_prompt_and_the_duration_of_a_chunk(omni: Any) -> None:
    """Diffusers' transfer pipeline adds no templates to a prompt, so the captions must hold them."""
    from diffusers.modular_pipelines.cosmos.encoders import _SYSTEM_PROMPT_TRANSFER

    generation = ALL_CASES[-1].generation()
    assert generation.size is not None and generation.transfer is not None and generation.num_frames == 201
    captions = captions_for(generation, generation.size)
    assert captions.system == _SYSTEM_PROMPT_TRANSFER
    assert captions.prompt.endswith(
        "The video is 3.9 seconds long and is of 24 FPS. This video is of 720x1280 resolution."
    )
    without = generation.model_copy(update={"use_resolution_template": False, "use_duration_template": False})
    assert captions_for(without, generation.size).prompt == generation.prompt


@pytest.mark.usefixtures("engine")
def test_action_canvases_equal_those_of_diffusers() -> None:
    from diffusers.pipelines.cosmos.pipeline_cosmos3_omni import _ACTION_RESOLUTION_BINS

    for tier in ("256p", "480p", "720p"):
        bins = _ACTION_RESOLUTION_BINS[tier.removesuffix("p")].values()
        assert {(size.height, size.width) for size in SIZES[tier].values()} == set(bins)


def test_protected_json_does_not_parse_and_is_unchanged_when_stripped() -> None:
    import json

    caption = '{"subject": "a robot"}'
    with pytest.raises(ValueError, match="Extra data"):
        json.loads(protect_json(caption))
    assert protect_json(caption).strip() == caption and protect_json("A robot.") == "A robot."


def test_transfer_prompt_ends_with_the_templates(
    make: Make, omni: Any, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transfer pipeline uses the same tokenizer object, which the test wraps."""
    seen: list[str] = []
    apply = type(omni.text_tokenizer).apply_chat_template

    def noted(tokenizer: Any, chat: list[dict[str, str]], **options: Any) -> Any:
        seen.append(chat[-1]["content"])
        return apply(tokenizer, chat, **options)

    monkeypatch.setattr(type(omni.text_tokenizer), "apply_chat_template", noted)
    make(FOLLOWED, clip, prompt="A red cube rolls.")
    assert seen[0] == (
        "A red cube rolls. The video is 0.4 seconds long and is of 12 FPS. This video is of 48x64 resolution."
    )
    assert seen[1].endswith("This video is not of 48x64 resolution.")
