"""Read the actions of an episode, which a robot was sent at each of its frames."""

from typing import Any

from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.actions import Actions
from cosmos_batch.robot_data.episodes import Episode
from cosmos_batch.robot_data.layout import DataSet

ACTION = "action"


def read_actions(data_set: DataSet, episode: Episode, start: float, count: int) -> Actions:
    """Return `count` rows of numbers of the column `action`, from `start` seconds of the episode on.

    Raises Failure (InvalidInput) where the episode has fewer, or where they cannot be read.
    """
    first = round(start * data_set.info.fps)
    rows = _rows(data_set, episode)
    if len(rows) != episode.length:
        raise data_set.unusable(
            f"episode {episode.index} has {counted(episode.length, 'frame')}, and {counted(len(rows), 'action')}."
        )
    if first + count > len(rows):
        raise Failure(
            "InvalidInput",
            f"Episode {episode.index} has {counted(max(0, len(rows) - first), 'action')} from {start:g} s on; "
            f"needed: {count}.",
            "Begin earlier, or set --action-chunk-size to fewer.",
        )
    return rows[first : first + count]


def _rows(data_set: DataSet, episode: Episode) -> Actions:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if ACTION not in data_set.info.features:
        raise data_set.unusable(f"it has no column {ACTION!r}.", "Name a data set with actions, or another --mode.")
    try:
        table = pq.read_table(
            episode.data,
            columns=["frame_index", ACTION],
            filters=[("episode_index", "=", episode.index)],
            partitioning=None,
        )
    except (OSError, pa.ArrowException) as error:
        raise data_set.unusable(f"{episode.data} cannot be read: {error}.") from error
    values: list[dict[str, Any]] = sorted(table.to_pylist(), key=lambda row: row["frame_index"])
    # A data set whose actions are single numbers has no lists.
    return [value if isinstance(value := row[ACTION], list) else [value] for row in values]
