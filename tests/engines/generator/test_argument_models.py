"""What we send to the engines that need a GPU is what their own argument models accepted, case by case.

`scripts/argument_models.py` asked those, at the commits of our images; here is seen that our side is still the same.
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

ASKED = [framework, phyai]
IMAGES = {"cosmos-framework": "framework", "phyai": "phyai"}

Record = dict[str, Any]


@pytest.fixture(params=ASKED, ids=lambda one: one.ENGINE)
def engine(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


@pytest.fixture
def record(engine: ModuleType) -> Record:
    found: Record = json.loads(engine.RECORD.read_text(encoding="utf-8"))
    return found


def test_what_we_send_is_what_was_accepted(engine: ModuleType, record: Record) -> None:
    accepted = {name: one["sent"] for name, one in record["accepted"].items()}
    for name, sent in engine.sent().items():
        assert accepted.get(name) == sent, f"{name}: run scripts/argument_models.py"
    assert accepted.keys() == engine.sent().keys()


def test_what_is_wrong_was_refused(engine: ModuleType, record: Record) -> None:
    assert {name: one["sent"] for name, one in record["refused"].items()} == engine.spoiled()
    assert all(one["said"] for one in record["refused"].values()) and len(record["refused"]) >= 4


def test_the_engine_changed_nothing_of_it(record: Record) -> None:
    assert {name for name, one in record["accepted"].items() if one["changed"]} == set()


def test_the_engine_means_the_size_that_was_asked_for(engine: ModuleType, record: Record) -> None:
    for case, asked in cases(engine.ENGINE):
        if asked.action is None:
            assert asked.size is not None
            assert record["accepted"][case.name]["size"] == list(asked.size), case.name


def test_phyai_means_the_frames_sound_and_actions_that_were_asked_for() -> None:
    record = json.loads(phyai.RECORD.read_text(encoding="utf-8"))
    for case, asked in cases(phyai.ENGINE):
        means = record["accepted"][case.name]["means"]
        assert asked.num_frames is not None and asked.fps is not None and asked.size is not None
        assert (means["video_shape"][0] - 1) * 4 + 1 == asked.num_frames
        assert ("sound_frames" in means) is asked.sound
        if asked.sound:
            assert 0 <= means["sound_frames"] / 25 - asked.num_frames / asked.fps < 1 / 25
        if asked.action:
            assert means["raw_action_dim"] == asked.action.width and means["action_chunk"] == asked.action.chunk_size
            frames = [asked.num_frames, asked.size.height, asked.size.width]
            assert means["cond_video_pixels"] == [1, 3, *frames], case.name
            given = [1, asked.action.chunk_size, means["action_dim"]] if asked.mode == "forward_dynamics" else None
            assert means.get("cond_action") == given
        elif asked.conditioning:
            assert means["cond_frame_indexes"] == asked.conditioning.frames


def test_the_page_says_how_many_there_are(engine: ModuleType, record: Record) -> None:
    page = " ".join((ROOT / "docs" / "generator-engines.md").read_text(encoding="utf-8").split())
    said = {
        "cosmos-framework": f"{len(record['accepted'])} samples of every mode, size and domain were read by its own "
        f"classes at 5eee9ed and accepted as they are, {len(record['refused'])} that are wrong refused",
        "phyai": f"{len(record['accepted'])} requests and plans were taken by its own classes at d27fe18",
    }
    assert said[engine.ENGINE] in page


def test_the_captions_are_what_is_sent(engine: ModuleType) -> None:
    """Those of Diffusers, as `diffusers/test_captions.py` sees; of actions Cosmos Framework makes the same itself."""
    sent = engine.sent()
    for case, asked in cases(engine.ENGINE):
        assert asked.size is not None
        captions = captions_for(asked, asked.size)
        makes_it_itself = engine is framework and asked.action
        assert sent[case.name]["prompt"].rstrip("\f") == (asked.prompt if makes_it_itself else captions.prompt)
        assert sent[case.name]["negative_prompt"].replace(NEGATIVE, nvidia_negative_prompt()) == captions.negative
        if engine is phyai:
            assert sent[case.name]["system_prompt"] == captions.system


def test_the_record_is_of_the_commit_that_the_image_has(engine: ModuleType, record: Record) -> None:
    dockerfile = (ROOT / "containers" / IMAGES[engine.ENGINE] / "Dockerfile").read_text(encoding="utf-8")
    assert record["commit"] == engine.COMMIT and f"ARG REVISION={engine.COMMIT}\n" in dockerfile


def test_the_table_has_each_mode_of_the_engine(engine: ModuleType) -> None:
    made = [asked for _, asked in cases(engine.ENGINE)]
    contract = GENERATOR_ABILITIES[engine.ENGINE]
    assert {one.mode for one in made} == set(contract.modes) <= MODES.keys()
    assert {one.mode for one in made if one.sound} == set(contract.sound)
    assert len(made) < len(CASES)  # and some that it refuses
