"""What every engine is sent of a prompt is what Diffusers' own `tokenize_prompt` makes of it, mode by mode."""

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
SAID = (
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


def read_by_diffusers(omni: Any, asked: Generation) -> tuple[Ids, Ids]:
    """As its pipelines call it."""
    assert (asked.size is not None and asked.resolution is not None) or asked.action is None
    size = (
        action_canvas(asked.resolution, asked.size) if asked.action and asked.resolution and asked.size else asked.size
    )
    assert size is not None
    action = {"action_mode": asked.mode, "action_view_point": asked.action.view_point} if asked.action else {}
    found: tuple[Ids, Ids] = omni.tokenize_prompt(
        asked.prompt,
        asked.negative_prompt,
        num_frames=asked.num_frames,
        height=size.height,
        width=size.width,
        fps=asked.fps,
        use_system_prompt=asked.action is None,
        add_resolution_template=asked.use_resolution_template,
        add_duration_template=asked.use_duration_template,
        **action,
    )
    return found


def test_captions_are_those_of_diffusers(omni: Any) -> None:
    for case in SAID:
        asked = case.generation()
        assert asked.size is not None
        if asked.transfer is None:
            found = ids_of(omni.text_tokenizer, captions_for(asked, asked.size))
            assert found == read_by_diffusers(omni, asked), case.name


def test_of_transfer_the_system_prompt_is_its_own_and_the_text_that_of_a_chunk(omni: Any) -> None:
    """Diffusers reads these as they are, and says nothing of templates."""
    from diffusers.modular_pipelines.cosmos.encoders import _SYSTEM_PROMPT_TRANSFER

    asked = SAID[-1].generation()
    assert asked.size is not None and asked.transfer is not None and asked.num_frames == 201
    captions = captions_for(asked, asked.size)
    assert captions.system == _SYSTEM_PROMPT_TRANSFER
    assert captions.prompt.endswith(
        "The video is 3.9 seconds long and is of 24 FPS. This video is of 720x1280 resolution."
    )
    without = asked.model_copy(update={"use_resolution_template": False, "use_duration_template": False})
    assert captions_for(without, asked.size).prompt == asked.prompt


@pytest.mark.usefixtures("engine")
def test_the_canvas_of_an_action_is_diffusers_own() -> None:
    from diffusers.pipelines.cosmos.pipeline_cosmos3_omni import _ACTION_RESOLUTION_BINS

    for tier in ("256p", "480p", "720p"):
        bins = _ACTION_RESOLUTION_BINS[tier.removesuffix("p")].values()
        assert {(size.height, size.width) for size in SIZES[tier].values()} == set(bins)


def test_a_caption_in_json_is_none_to_who_looks_for_one_and_the_same_without_space() -> None:
    import json

    caption = '{"subject": "a robot"}'
    with pytest.raises(ValueError, match="Extra data"):
        json.loads(protect_json(caption))
    assert protect_json(caption).strip() == caption and protect_json("A robot.") == "A robot."


def test_what_transfer_reads_has_its_templates(
    make: Make, omni: Any, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Diffusers' pipeline of transfer shares the tokenizer."""
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
