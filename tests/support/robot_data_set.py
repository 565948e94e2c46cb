"""Small LeRobot data sets in the layouts v2.1 and v3.0, as LeRobot's documentation describes them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support import media_files

FPS = 10
LENGTHS = (8, 12, 10)  # frames of each episode
FRONT, WRIST = "observation.images.front", "observation.images.wrist"
TASKS = ("Pick up the cube.", "Open the drawer.", "Pick up the cube.")
WIDTH, HEIGHT = 64, 48


def level(episode: int, frame: int) -> int:
    """Return the gray level of a frame, which tells the episode and the frame."""
    return 20 + 70 * episode + 5 * frame


def action(episode: int, frame: int) -> list[float]:
    """Return the action of a frame, which tells both too: seven numbers that float32 has exactly."""
    return [float(episode), float(frame), 0.5, 0.25, 0.0, -1.0, 1.0]


def write_v21(folder: Path) -> Path:
    """Write a data set with a file for each episode and camera."""
    for episode in range(len(LENGTHS)):
        _write_rows(folder / f"data/chunk-000/episode_{episode:06d}.parquet", [episode])
        for camera in (FRONT, WRIST):
            _write_video(folder / f"videos/chunk-000/{camera}/episode_{episode:06d}.mp4", [episode])
    lines = [
        json.dumps({"episode_index": episode, "tasks": [TASKS[episode]], "length": length}) + "\n"
        for episode, length in enumerate(LENGTHS)
    ]
    (folder / "meta").mkdir()
    (folder / "meta" / "episodes.jsonl").write_text("".join(lines))
    return _write_info(
        folder,
        "v2.1",
        "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    )


def write_v30(folder: Path) -> Path:
    """Write a data set whose front camera has all episodes in one file, and whose wrist camera has the last in a
    second one.
    """
    _write_rows(folder / "data/chunk-000/file-000.parquet", [0, 1, 2])
    _write_video(folder / f"videos/{FRONT}/chunk-000/file-000.mp4", [0, 1, 2])
    _write_video(folder / f"videos/{WRIST}/chunk-000/file-000.mp4", [0, 1])
    _write_video(folder / f"videos/{WRIST}/chunk-000/file-001.mp4", [2])
    begins = [sum(LENGTHS[:episode]) / FPS for episode in range(3)]
    table = {
        "episode_index": [0, 1, 2],
        "tasks": [[task] for task in TASKS],
        "length": list(LENGTHS),
        "data/chunk_index": [0, 0, 0],
        "data/file_index": [0, 0, 0],
        "stats/action/mean": [[0.0], [0.0], [0.0]],
        "meta/episodes/chunk_index": [0, 0, 0],
        "meta/episodes/file_index": [0, 0, 0],
    }
    for camera, files, starts in ((FRONT, [0, 0, 0], begins), (WRIST, [0, 0, 1], [*begins[:2], 0.0])):
        table |= {
            f"videos/{camera}/chunk_index": [0, 0, 0],
            f"videos/{camera}/file_index": files,
            f"videos/{camera}/from_timestamp": starts,
            f"videos/{camera}/to_timestamp": [
                start + length / FPS for start, length in zip(starts, LENGTHS, strict=True)
            ],
        }
    _write_table(folder / "meta/episodes/chunk-000/file-000.parquet", table)
    return _write_info(
        folder,
        "v3.0",
        "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    )


def _write_info(folder: Path, version: str, data_path: str, video_path: str) -> Path:
    video = {"dtype": "video", "shape": [HEIGHT, WIDTH, 3], "names": ["height", "width", "channels"]}
    info = {
        "codebase_version": version,
        "robot_type": "so100",
        "total_episodes": 3,
        "chunks_size": 1000,
        "fps": FPS,
        "data_path": data_path,
        "video_path": video_path,
        "features": {
            "action": {"dtype": "float32", "shape": [7], "names": None},
            FRONT: video,
            WRIST: video,
            "frame_index": {"dtype": "int64", "shape": [1], "names": None},
        },
    }
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    return folder


def _write_rows(path: Path, episodes: list[int]) -> None:
    places = [(episode, frame) for episode in episodes for frame in range(LENGTHS[episode])]
    numbers = pa.array([action(*place) for place in places], pa.list_(pa.float32()))
    columns = {"action": numbers, "episode_index": [place[0] for place in places]}
    _write_table(path, {**columns, "frame_index": [place[1] for place in places]})


def _write_table(path: Path, columns: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def _write_video(path: Path, episodes: list[int]) -> None:
    """Write the frames of episodes one after the other; key frames come where the encoder puts them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    levels = [level(episode, frame) for episode in episodes for frame in range(LENGTHS[episode])]
    media_files.video(
        path,
        frames=len(levels),
        fps=FPS,
        width=WIDTH,
        height=HEIGHT,
        paint=lambda index: np.full((HEIGHT, WIDTH, 3), levels[index], np.uint8),
    )
