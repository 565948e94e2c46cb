"""Read the table of a data set's episodes: `meta/episodes.jsonl` (v2.1) or `meta/episodes/*/*.parquet` (v3.0)."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import explain
from cosmos_batch.robot_data.layout import DataSet


class _Row(Model):
    """A row of the table: the fields that both layouts have."""

    model_config = ConfigDict(extra="ignore", alias_generator=None)

    episode_index: int = Field(ge=0)
    length: int = Field(ge=1)
    tasks: list[str] = Field(default_factory=list)


class _Place(Model):
    """The place of an episode in files with many: the fields of the layout v3.0 below `data/` or `videos/NAME/`."""

    model_config = ConfigDict(extra="ignore", alias_generator=None)

    chunk_index: int = Field(ge=0)
    file_index: int = Field(ge=0)
    from_timestamp: float = Field(default=0.0, ge=0)


@dataclass(frozen=True)
class CameraFile:
    """A camera's video file, and when the episode begins in it, in seconds."""

    path: Path
    start: float


@dataclass(frozen=True)
class Episode:
    """One recording of a data set.

    Attributes
    ----------
    index
        Its number in the data set.
    length
        The number of its frames, and of its rows in the data file.
    tasks
        What the robot was told to do.
    data
        The Parquet file with its states and actions; in the layout v3.0 other episodes are in it too.
    videos
        The video file of each camera.
    """

    index: int
    length: int
    tasks: tuple[str, ...]
    data: Path
    videos: dict[str, CameraFile]


def read_episodes(data_set: DataSet, wanted: Collection[int] | None = None) -> list[Episode]:
    """Return the episodes with these numbers, or all of them, in the order of the data set.

    Raises Failure (InvalidInput) where one is missing, or where the table cannot be read.
    """
    rows = _shared_file_rows(data_set) if data_set.shares_files else _lines(data_set)
    read = _episode_in_shared_files if data_set.shares_files else _episode_with_own_files
    try:
        episodes = [read(data_set, row) for row in rows if wanted is None or row.get("episode_index") in wanted]
    except ValidationError as error:
        raise data_set.unusable(f"its table of episodes is damaged: {explain(error)}.") from error
    missing = sorted(set(wanted or ()) - {episode.index for episode in episodes})
    if missing:
        last = max(_numbers(data_set), default=-1)
        raise data_set.unusable(
            f"it has no episode {', '.join(map(str, missing))}.", f"It has the episodes 0 to {last}; name one of them."
        )
    return sorted(episodes, key=lambda episode: episode.index)


def _numbers(data_set: DataSet) -> list[int]:
    rows = _shared_file_rows(data_set) if data_set.shares_files else _lines(data_set)
    return [number for row in rows if isinstance(number := row.get("episode_index"), int)]


def _lines(data_set: DataSet) -> Iterator[dict[str, Any]]:
    """Yield the rows of the layout v2.1."""
    path = data_set.folder / "meta" / "episodes.jsonl"
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line) if line.strip() else {}
                if isinstance(row, dict) and row:
                    yield row
    except (OSError, ValueError, RecursionError) as error:
        raise data_set.unusable(f"{path} cannot be read: {error}.") from error


def _shared_file_rows(data_set: DataSet) -> Iterator[dict[str, Any]]:
    """Yield the rows of the layout v3.0 without their statistics, which are most of the table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = data_set.folder / "meta" / "episodes"
    paths = sorted(folder.glob("*/*.parquet"))
    if not paths:
        raise data_set.unusable(f"there is no table of episodes in {folder}.")
    for path in paths:
        try:
            with pq.ParquetFile(path) as file:
                names = [name for name in file.schema_arrow.names if not name.startswith("stats/")]
                for batch in file.iter_batches(columns=names):
                    yield from batch.to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise data_set.unusable(f"{path} cannot be read: {error}.") from error


def _episode_with_own_files(data_set: DataSet, values: dict[str, Any]) -> Episode:
    row = _Row.model_validate(values)
    fields = {"episode_chunk": row.episode_index // data_set.info.chunks_size, "episode_index": row.episode_index}
    videos = {camera: CameraFile(_video(data_set, camera, fields), 0.0) for camera in data_set.cameras}
    data = data_set.path(data_set.info.data_path, **fields)
    return Episode(row.episode_index, row.length, tuple(row.tasks), data, videos)


def _episode_in_shared_files(data_set: DataSet, values: dict[str, Any]) -> Episode:
    row, data = _Row.model_validate(values), _place(values, "data/")
    videos = {}
    for camera in data_set.cameras:
        place = _place(values, f"videos/{camera}/")
        videos[camera] = CameraFile(_video(data_set, camera, _fields(place)), place.from_timestamp)
    path = data_set.path(data_set.info.data_path, **_fields(data))
    return Episode(row.episode_index, row.length, tuple(row.tasks), path, videos)


def _place(values: dict[str, Any], prefix: str) -> _Place:
    return _Place.model_validate(
        {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
    )


def _fields(place: _Place) -> dict[str, int]:
    return {"chunk_index": place.chunk_index, "file_index": place.file_index}


def _video(data_set: DataSet, camera: str, fields: dict[str, int]) -> Path:
    assert data_set.info.video_path is not None, "open_data_set refuses cameras without a path"
    return data_set.path(data_set.info.video_path, video_key=camera, **fields)
