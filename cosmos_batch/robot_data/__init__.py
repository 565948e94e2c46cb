"""Data sets of robots in LeRobot's layouts v2.1 and v3.0, read from a folder: their episodes, videos and actions.

The layouts are documented at https://huggingface.co/docs/lerobot/lerobot-dataset-v3. LeRobot's own package is not
used: it needs PyTorch of a certain version, and a command that reads three kinds of files does not.

1. `layout` reads `meta/info.json` and says where the files of an episode are.
2. `episodes` reads the table of episodes.
3. `clips` returns an episode's video: its own file, or its part of one that has many episodes.
4. `actions` reads an episode's actions.
"""

from cosmos_batch.robot_data.actions import read_actions
from cosmos_batch.robot_data.clips import episode_clip
from cosmos_batch.robot_data.episodes import Episode, read_episodes
from cosmos_batch.robot_data.layout import DataSet, is_data_set, open_data_set

__all__ = [
    "DataSet",
    "Episode",
    "episode_clip",
    "is_data_set",
    "open_data_set",
    "read_actions",
    "read_episodes",
]
