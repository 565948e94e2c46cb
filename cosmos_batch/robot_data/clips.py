"""Return the video of an episode as a file of its own."""

import re
from pathlib import Path

import numpy as np

from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.error import Failure
from cosmos_batch.media import VideoInfo, displayed_frames, displayed_size, exact_rate, probe, write_video
from cosmos_batch.robot_data.episodes import Episode
from cosmos_batch.robot_data.layout import DataSet

_OTHER = re.compile(r"[^\w.-]")  # characters of a camera's name that the name of a file should not have
_REMEDY = "Its files may not be downloaded: hf download OWNER/NAME --repo-type dataset --local-dir FOLDER"


def episode_clip(data_set: DataSet, episode: Episode, camera: str, folder: Path, start: float = 0.0) -> Path:
    """Return an episode's video of one camera, from `start` seconds of it on.

    It is the data set's own file where that has nothing else. Otherwise its frames are written to a new file in
    `folder`, whose name has the episode and the camera. Raises Failure (InvalidInput) where the data set's file is
    missing or damaged, or has not all of the episode's frames.
    """
    source = episode.videos[camera]
    if not source.path.is_file():
        raise data_set.unusable(f"there is no video {source.path}.", _REMEDY)
    info = probe(source.path)
    if not isinstance(info, VideoInfo):
        raise data_set.unusable(f"{source.path} is an image; a video was expected.", _REMEDY)
    if not data_set.shares_files and not start:
        return source.path
    times = _episode_times(data_set, episode, source.start, info)
    skipped = round(start * data_set.info.fps)
    if skipped >= len(times):
        raise Failure(
            "InvalidInput",
            f"Episode {episode.index} has {len(times) / data_set.info.fps:.1f} s; {start:g} s is not in it.",
            "Begin earlier.",
        )
    width, height = displayed_size(source.path)
    even = (max(2, width // 2 * 2), max(2, height // 2 * 2))  # H.264 has no odd sides
    target = folder / f"episode_{episode.index:06d}.{_OTHER.sub('_', camera)}.mp4"
    frames = displayed_frames(source.path, info.timeline, times[skipped:], even)
    write_video(target, frames, exact_rate(data_set.info.fps))
    return target


def _episode_times(data_set: DataSet, episode: Episode, start: float, info: VideoInfo) -> list[float]:
    """Return the times of an episode's frames in a file, in seconds from the file's first frame.

    They are as many as the episode has rows, from the frame that is nearest to its beginning on. The end that the
    table names is not used: it is a sum of rounded lengths.
    """
    stored = info.timeline.times
    first = int(np.abs(stored - start).argmin())
    times = [float(seconds) for seconds in stored[first : first + episode.length]]
    if len(times) < episode.length or abs(times[0] - start) > 1 / data_set.info.fps:
        raise data_set.unusable(
            f"episode {episode.index} has {counted(episode.length, 'frame')} from {start:.3f} s of a video on, "
            f"and that video has {len(stored)} in {info.timeline.duration:.3f} s.",
            _REMEDY,
        )
    return times
