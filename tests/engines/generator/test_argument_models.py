"""Our requests to Cosmos Framework and PhyAI still equal those that the engines' own argument models accepted.

Both engines need a GPU. `scripts/argument_models.py` passed the requests to their argument classes, at the commits of
our images, and recorded the results, with which these tests compare.
"""

import json
from types import ModuleType
from typing import Any

import pytest

from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.catalogue.generation import MODES
from cosmos_batch.engines.generator.captions import captions_for
from cosmos_batch.planning.generation.prompts import nvidia_negative_prompt
from tests.containers.test_images import ROOT
from tests.engines.generator.argument_models import framework, phyai
from tests.engines.generator.argument_models.table import CASES, NEGATIVE, cases

ENGINES_ON_RECORD = [framework, phyai]
IMAGES = {"cosmos-framework": "framework", "phyai": "phyai"}

Record = dict[str, Any]


@pytest.fixture(params=ENGINES_ON_RECORD, ids=lambda one: one.ENGINE)
def engine(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


@pytest.fixture
def record(engine: ModuleType) -> Record:
    record: Record = json.loads(engine.RECORD.read_text(encoding="utf-8"))
    return record


def test_requests_equal_the_recorded_requests_that_were_accepted(engine: ModuleType, record: Record) -> None:
    accepted = {name: one["sent"] for name, one in record["accepted"].items()}
    for name, sent in engine.sent().items():
        assert accepted.get(name) == sent, f"{name}: run scripts/argument_models.py"
    assert accepted.keys() == engine.sent().keys()


def test_wrong_requests_are_on_record_as_refused(engine: ModuleType, record: Record) -> None:
    assert {name: one["sent"] for name, one in record["refused"].items()} == engine.spoiled()
    assert all(case["error"] for case in record["refused"].values()) and len(record["refused"]) >= 4


def test_the_engine_changed_no_parameter(record: Record) -> None:
    assert {name for name, one in record["accepted"].items() if one["changed"]} == set()


def test_the_engine_computed_the_requested_size(engine: ModuleType, record: Record) -> None:
    for case, generation in cases(engine.ENGINE):
        if generation.action is None:
            assert generation.size is not None
            assert record["accepted"][case.name]["size"] == list(generation.size), case.name


def test_phyai_computed_the_requested_frames_sound_and_actions() -> None:
    record = json.loads(phyai.RECORD.read_text(encoding="utf-8"))
    for case, generation in cases(phyai.ENGINE):
        means = record["accepted"][case.name]["means"]
        assert generation.num_frames is not None and generation.fps is not None and generation.size is not None
        assert (means["video_shape"][0] - 1) * 4 + 1 == generation.num_frames
        assert ("sound_frames" in means) is generation.sound
        if generation.sound:
            assert 0 <= means["sound_frames"] / 25 - generation.num_frames / generation.fps < 1 / 25
        if generation.action:
            assert (
                means["raw_action_dim"] == generation.action.width
                and means["action_chunk"] == generation.action.chunk_size
            )
            frames = [generation.num_frames, generation.size.height, generation.size.width]
            assert means["cond_video_pixels"] == [1, 3, *frames], case.name
            rows = (
                [1, generation.action.chunk_size, means["action_dim"]]
                if generation.mode == "forward_dynamics"
                else None
            )
            assert means.get("cond_action") == rows
        elif generation.conditioning:
            assert means["cond_frame_indexes"] == generation.conditioning.frames


def test_the_documentation_has_the_counts_of_the_record(engine: ModuleType, record: Record) -> None:
    page = " ".join((ROOT / "docs" / "generator-engines.md").read_text(encoding="utf-8").split())
    expected = {
        "cosmos-framework": f"Its own classes at 5eee9ed read {len(record['accepted'])} samples of every mode, size "
        f"and domain and accepted them unchanged, and refused {len(record['refused'])} invalid ones",
        "phyai": f"Its own classes at d27fe18 accepted {len(record['accepted'])} requests and plans",
    }
    assert expected[engine.ENGINE] in page


def test_sent_prompts_equal_our_captions(engine: ModuleType) -> None:
    """With actions, Cosmos Framework writes the caption itself. `diffusers/test_captions.py` checks our captions."""
    sent = engine.sent()
    for case, generation in cases(engine.ENGINE):
        assert generation.size is not None
        captions = captions_for(generation, generation.size)
        writes_caption_itself = engine is framework and generation.action
        assert sent[case.name]["prompt"].rstrip("\f") == (
            generation.prompt if writes_caption_itself else captions.prompt
        )
        assert sent[case.name]["negative_prompt"].replace(NEGATIVE, nvidia_negative_prompt()) == captions.negative
        if engine is phyai:
            assert sent[case.name]["system_prompt"] == captions.system


def test_the_record_is_of_the_images_commit(engine: ModuleType, record: Record) -> None:
    dockerfile = (ROOT / "containers" / IMAGES[engine.ENGINE] / "Dockerfile").read_text(encoding="utf-8")
    assert record["commit"] == engine.COMMIT and f"ARG REVISION={engine.COMMIT}\n" in dockerfile


def test_the_table_covers_each_mode_of_the_engine(engine: ModuleType) -> None:
    generations = [generation for _, generation in cases(engine.ENGINE)]
    contract = GENERATOR_ABILITIES[engine.ENGINE]
    assert {one.mode for one in generations} == set(contract.modes) <= MODES.keys()
    assert {one.mode for one in generations if one.sound} == set(contract.sound)
    assert len(generations) < len(CASES)  # the table also has cases that the engine cannot do
