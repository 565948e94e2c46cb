"""Episodes of LeRobot data sets are found in both layouts, with the right frames and actions, whoever made them."""

import json
from pathlib import Path
from typing import Any

import av
import pyarrow.parquet as pq
import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.robot_data import episode_clip, is_data_set, open_data_set, read_actions, read_episodes
from cosmos_batch.robot_data.layout import DataSet
from tests.support import robot_data_set
from tests.support.robot_data_set import FRONT, LENGTHS, TASKS, WRIST, action, level, write_v21, write_v30


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("data-sets")
    return {"v2.1": write_v21(root / "v21"), "v3.0": write_v30(root / "v30")}


@pytest.fixture(params=["v2.1", "v3.0"])
def data_set(request: pytest.FixtureRequest, folders: dict[str, Path]) -> DataSet:
    return open_data_set(folders[request.param])


def levels(path: Path) -> list[float]:
    """Return the mean gray level of each frame."""
    with av.open(str(path)) as container:
        return [float(frame.to_ndarray(format="gray").mean()) for frame in container.decode(video=0)]


def assert_shows(path: Path, episode: int, first: int = 0) -> None:
    """Check that a video has the frames of an episode from `first` on, and no other."""
    shown = levels(path)
    expected = [level(episode, frame) for frame in range(first, LENGTHS[episode])]
    assert len(shown) == len(expected)
    assert all(abs(one - other) < 2.4 for one, other in zip(shown, expected, strict=True)), (shown, expected)


@pytest.mark.parametrize("camera", [FRONT, WRIST])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_clip_of_an_episode_has_its_frames_and_no_other(
    data_set: DataSet, number: int, camera: str, tmp_path: Path
) -> None:
    [episode] = read_episodes(data_set, [number])
    assert (episode.length, episode.tasks) == (LENGTHS[number], (TASKS[number],))
    clip = episode_clip(data_set, episode, camera, tmp_path)
    assert_shows(clip, number)
    assert clip.is_relative_to(tmp_path) is data_set.shares_files, "a file of its own is not copied"


def test_a_clip_may_begin_within_the_episode(data_set: DataSet, tmp_path: Path) -> None:
    [episode] = read_episodes(data_set, [1])
    assert_shows(episode_clip(data_set, episode, FRONT, tmp_path, start=0.5), 1, first=5)
    with pytest.raises(Failure, match="Begin earlier"):
        episode_clip(data_set, episode, FRONT, tmp_path, start=1.2)


def test_all_episodes_are_read_in_order(data_set: DataSet) -> None:
    assert [episode.index for episode in read_episodes(data_set)] == [0, 1, 2]
    assert data_set.cameras == [FRONT, WRIST]


def test_actions_are_those_of_the_frames(data_set: DataSet) -> None:
    [episode] = read_episodes(data_set, [1])
    assert read_actions(data_set, episode, 0.0, 12) == [action(1, frame) for frame in range(12)]
    assert read_actions(data_set, episode, 0.3, 4) == [action(1, frame) for frame in range(3, 7)]
    with pytest.raises(Failure, match=r"has 4 actions from 0.8 s on; needed: 8"):
        read_actions(data_set, episode, 0.8, 8)


def test_an_episode_that_does_not_exist_is_named_with_those_that_do(data_set: DataSet) -> None:
    with pytest.raises(Failure, match="no episode 7") as refused:
        read_episodes(data_set, [1, 7])
    assert "0 to 2" in refused.value.error.remedy


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """Provide a data set of the layout v3.0 that a test may damage."""
    return write_v30(tmp_path / "fresh")


def change_info(folder: Path, **changes: Any) -> None:
    path = folder / "meta" / "info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def first_clip(folder: Path) -> Path:
    data_set = open_data_set(folder)
    return episode_clip(data_set, read_episodes(data_set, [0])[0], FRONT, folder)


@pytest.mark.parametrize(
    "template",
    [
        "../../../etc/{video_key}.mp4",
        "/etc/{video_key}.mp4",
        "videos/{video_key}/../../../secret.mp4",
        "videos/{video_key.__class__}/{chunk_index:03d}.mp4",
        "videos/{unknown}.mp4",
        "videos/{video_key}/{chunk_index:09999999d}.mp4",
    ],
)
def test_no_path_leads_out_of_the_data_set(fresh: Path, template: str) -> None:
    """The files of a data set are uploaded, so a data set from a stranger must not lead to private files."""
    (fresh.parent / "secret.mp4").write_bytes((fresh / f"videos/{FRONT}/chunk-000/file-000.mp4").read_bytes())
    change_info(fresh, video_path=template)
    with pytest.raises(Failure) as refused:
        first_clip(fresh)
    assert refused.value.error.code == "InvalidInput"


def test_a_camera_whose_name_is_a_path_stays_within_the_data_set(fresh: Path) -> None:
    change_info(fresh, features={"../../..": {"dtype": "video"}})
    with pytest.raises(Failure):
        read_episodes(open_data_set(fresh))


def test_files_that_are_not_there_are_named_with_the_command_that_downloads_them(fresh: Path) -> None:
    (fresh / f"videos/{FRONT}/chunk-000/file-000.mp4").unlink()
    with pytest.raises(Failure, match="there is no video") as refused:
        first_clip(fresh)
    assert "hf download" in refused.value.error.remedy


def test_a_pointer_of_git_lfs_is_no_video(fresh: Path) -> None:
    (fresh / f"videos/{FRONT}/chunk-000/file-000.mp4").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(Failure, match="content is"):
        first_clip(fresh)


def test_a_video_that_is_too_short_for_the_table_is_refused(fresh: Path) -> None:
    """With a frame missing, the actions of the table would be matched with the wrong frames."""
    path = fresh / "meta/episodes/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    column = table.schema.get_field_index("length")
    pq.write_table(table.set_column(column, "length", [[8, 12, 11]]), path)
    data_set = open_data_set(fresh)
    [episode] = read_episodes(data_set, [2])
    with pytest.raises(Failure, match="has 11 frames"):
        episode_clip(data_set, episode, FRONT, fresh)
    with pytest.raises(Failure, match="11 frames, and 10 actions"):
        read_actions(data_set, episode, 0.0, 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"codebase_version": "v1.6"}, "has the layout v1.6"),
        ({"fps": 0}, "fps"),
        ({"features": []}, "features"),
        ({"video_path": None}, "where its videos are"),
    ],
)
def test_another_layout_and_damaged_facts_are_named(fresh: Path, changes: dict[str, Any], message: str) -> None:
    change_info(fresh, **changes)
    with pytest.raises(Failure, match=message):
        open_data_set(fresh)


def test_a_damaged_table_is_named(fresh: Path) -> None:
    (fresh / "meta/episodes/chunk-000/file-000.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(Failure, match="cannot be read"):
        read_episodes(open_data_set(fresh))


def test_a_data_set_without_actions_says_so(fresh: Path) -> None:
    change_info(fresh, features={FRONT: {"dtype": "video"}})
    data_set = open_data_set(fresh)
    with pytest.raises(Failure, match="no column 'action'"):
        read_actions(data_set, read_episodes(data_set, [0])[0], 0.0, 4)


def test_a_folder_of_clips_is_no_data_set(folders: dict[str, Path], tmp_path: Path) -> None:
    assert all(is_data_set(folder) for folder in folders.values())
    assert not is_data_set(tmp_path)
    assert open_data_set(folders["v2.1"]).info.fps == robot_data_set.FPS
