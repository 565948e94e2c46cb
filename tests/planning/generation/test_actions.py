"""Actions are settled by their embodiment, and an array that does not fit it is refused by its row."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.catalogue.generation import DOMAINS
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.actions import checked_actions
from cosmos_batch.planning.generation.aliases import read_domain
from cosmos_batch.planning.generation.dimensions import fit_to_input
from tests.support.generations import AV, refusal, settled

# Numbers in an action of each embodiment, by Cosmos Framework at 5eee9ed; that of hand_pose is Diffusers 0.42.1's.
WIDTHS = {
    "av": 9, "camera_pose": 9, "pusht": 2, "umi": 10, "bridge_orig_lerobot": 10, "droid_lerobot": 10,
    "robomind-franka": 10, "robomind-franka-dual": 20, "robomind-ur": 10, "galbot": 30, "agibotworld": 29,
    "agibot_gear_gripper": 29, "agibot_gear_gripper_ext": 29, "fractal": 10, "hand_pose": 57,
    "xdof_yam": 20, "molmoact2_yam": 20, "abc_yam": 20, "maniparena": 20, "robotwin": 14,
    "behavior1k_lerobot": 23, "drawanything": 3,
}  # fmt: skip
LIBERO = {"mode": "forward_dynamics", "domain_name": "libero", "action_chunk_size": 4}

numbers = st.floats(allow_nan=True, allow_infinity=True) | st.integers()
anything = st.recursive(st.none() | st.booleans() | numbers | st.text(max_size=5), st.lists, max_leaves=30)


def test_the_widths_are_those_that_nvidia_publishes() -> None:
    fixed = {name: domain.widths[0] for name, domain in DOMAINS.items() if len(domain.widths) == 1}
    assert fixed == WIDTHS and DOMAINS.keys() - fixed == {"libero"}
    assert all(domain.chunk_size % 4 == 0 for domain in DOMAINS.values())


@given(rows_=anything, width=st.integers(1, 60))
def test_any_value_is_an_array_of_finite_rows_or_refused(rows_: object, width: int) -> None:
    try:
        rows = checked_actions(rows_, width)
    except Failure as failure:
        assert failure.error.message.startswith("action: ") and str(width) in failure.error.remedy
    else:
        assert all(len(row) == width and all(math.isfinite(number) for number in row) for row in rows)


@given(width=st.integers(1, 60), rows=st.integers(1, 30), data=st.data())
def test_an_array_of_the_right_width_stays_as_it_is(width: int, rows: int, data: st.DataObject) -> None:
    row = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=width, max_size=width)
    rows_ = data.draw(st.lists(row, min_size=rows, max_size=rows))
    assert checked_actions(rows_, width) == rows_


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "true", '"1"', "null"])
def test_a_value_that_is_no_finite_number_is_refused(number: str) -> None:
    rows = json.loads(f"[[1, 2], [3, {number}]]")
    with pytest.raises(Failure, match="row 1 contains"):
        checked_actions(rows, 2)


def test_a_row_of_the_wrong_width_is_refused_by_its_index() -> None:
    error = refusal({**AV, "action": [[0.0] * 9] * 59 + [[0.0] * 10]}, medium="image")
    assert error.message == "action: row 59 has 10 numbers."
    assert "9 finite numbers" in error.remedy


def test_a_misspelled_domain_is_told_the_nearest_one() -> None:
    error = refusal({"mode": "policy", "domain_name": "librero"}, medium="image")
    assert error.remedy.startswith("Did you mean libero? Use one of: ")


def test_the_chunk_size_is_the_requests_the_arrays_or_the_domains() -> None:
    generation = settled(AV, medium="image")
    assert generation.action is not None and (generation.action.chunk_size, generation.num_frames, generation.fps) == (
        60,
        61,
        10.0,
    )
    predicted = settled({"mode": "policy", "domain_name": "droid"}, medium="image")
    assert predicted.action is not None
    assert (predicted.action.domain_name, predicted.action.chunk_size, predicted.fps) == ("droid_lerobot", 16, 15.0)
    assert settled({"mode": "policy", "domain_name": "umi", "action_chunk_size": 32}, medium="image").num_frames == 33


@pytest.mark.parametrize("chunk", [1, 15, 400, 100_000])
def test_a_chunk_without_a_possible_video_is_refused(chunk: int) -> None:
    error = refusal({"mode": "policy", "domain_name": "av", "action_chunk_size": chunk}, medium="image")
    assert f"actionChunkSize: {chunk:,}" in error.message and "296 at most" in error.remedy


def test_more_rows_than_the_chunk_are_refused() -> None:
    assert "has 60 rows" in refusal({**AV, "action_chunk_size": 16}, medium="image").message


def test_forward_dynamics_requires_exactly_one_source_of_actions() -> None:
    assert "is missing" in refusal({"mode": "forward_dynamics", "domain_name": "av"}, medium="image").message
    assert "combined with actionPath" in refusal({**AV, "action_path": "s3://b-1/a.json"}, medium="image").message
    parameters = {"mode": "forward_dynamics", "domain_name": "av", "action_path": "s3://my-bucket/a.json"}
    generation = settled(parameters, medium="image")
    assert generation.action is not None and (generation.action.path, generation.action.actions) == (
        "s3://my-bucket/a.json",
        None,
    )
    assert "has no meaning in mode policy" in refusal({**AV, "mode": "policy"}, medium="image").message


def test_actions_too_large_for_a_request_are_refused_in_favor_of_a_file() -> None:
    parameters = {"mode": "forward_dynamics", "domain_name": "hand_pose", "action": [[0.123456789012] * 57] * 60}
    assert "actionPath" in refusal(parameters, medium="image").remedy


def test_an_unknown_domain_is_refused_and_aliases_are_read() -> None:
    assert "is missing" in refusal({"mode": "policy"}, medium="image").message
    error = refusal({"mode": "policy", "domain_name": "lawn_mower"}, medium="image")
    assert "'lawn_mower'" in error.message and "bridge_orig_lerobot" in error.remedy
    assert "has 9 numbers" in refusal({**AV, "raw_action_dim": 10}, medium="image").message
    assert read_domain(" Embodiment_B") == "galbot"


@pytest.mark.parametrize("name", WIDTHS)
def test_every_embodiment_of_nvidias_table_is_accepted(name: str) -> None:
    generation = settled({"mode": "policy", "domain_name": name}, medium="image", engine="vllm-omni")
    assert generation.action is not None and (generation.action.domain_name, generation.action.width) == (
        name,
        WIDTHS[name],
    )


@pytest.mark.parametrize("width", [7, 10, 13])
def test_libero_has_the_width_of_its_rows_or_of_the_request(width: int) -> None:
    rows = settled({**LIBERO, "action": [[0.1] * width] * 4}, medium="image")
    parameters = settled({"mode": "policy", "domain_name": "libero", "raw_action_dim": width}, medium="image")
    assert rows.action is not None and parameters.action is not None
    assert (rows.action.width, parameters.action.width) == (width, width)


def test_libero_with_another_width_or_without_a_width_is_refused() -> None:
    assert "7 or 10 or 13" in refusal({**LIBERO, "action": [[0.1] * 9] * 4}, medium="image").message
    assert "rawActionDim: is missing" in refusal({"mode": "policy", "domain_name": "libero"}, medium="image").message
    assert "row 1 has 10 numbers" in refusal(
        {**LIBERO, "action": [[0.1] * 7] + [[0.1] * 10] * 3}, medium="image"
    ).message  # fmt: skip


def test_a_request_in_vamss_names_is_read() -> None:
    generation = settled(
        {
            "action_mode": "inverse_dynamics", "domain_name": "bridge_orig_lerobot", "action_chunk_size": 16,
            "image_size": [320, 576], "view_point": 0, "raw_action_dim": 10,
        },
        medium="video",
    )  # fmt: skip
    assert (generation.mode, generation.resolution, generation.size) == ("inverse_dynamics", "480p", None)
    assert generation.action is not None and (generation.action.view_point, generation.action.width) == ("ego_view", 10)
    assert fit_to_input(generation, 640, 480).size is None  # engines pad the input to a size of the tier


@pytest.mark.parametrize("name", ["num_frames", "width", "aspect_ratio"])
def test_sizes_and_frames_that_follow_from_actions_cannot_be_set(name: str) -> None:
    value = {"num_frames": 61, "width": 832, "aspect_ratio": "16:9"}[name]
    refusal({**AV, name: value, **({"height": 480} if name == "width" else {})}, medium="image")
