"""Read what a LeRobot data set is, and where the files of its episodes are."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import ConfigDict, Field, ValidationError

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import Failure, explain

INFO = Path("meta") / "info.json"
ONE_FILE_EACH, SHARED_FILES = ("v2.0", "v2.1"), ("v3.0",)  # versions of the layout, by what a video file holds
_SIZE_LIMIT = 16 * 1024 * 1024  # bytes of meta/info.json; the largest data sets have some kilobytes
_FIELD = re.compile(r"\{(\w+)(?::0(\d)d)?\}")  # a field of a path in info.json, such as {episode_index:06d}


class Feature(Model):
    """A column of the data set: states or actions of a robot, or the pictures of a camera."""

    model_config = ConfigDict(extra="ignore", alias_generator=None)

    dtype: str = Field(description="Type of the values; `video` for a camera whose pictures are in MP4 files")


class Info(Model):
    """The part of `meta/info.json` that finds and cuts files. Other fields are ignored."""

    model_config = ConfigDict(extra="ignore", alias_generator=None)

    codebase_version: str = Field(description="Version of the layout")
    fps: float = Field(gt=0, le=10_000, description="Frames, and rows of numbers, a second")
    chunks_size: int = Field(default=1000, ge=1, description="Episodes in a folder of the layout v2.1")
    data_path: str = Field(description="Path of a file of numbers, with fields such as {episode_index:06d}")
    video_path: str | None = Field(default=None, description="The same for a video; None in a data set without videos")
    features: dict[str, Feature] = Field(description="The columns by their names")


@dataclass(frozen=True)
class DataSet:
    """A data set in a folder of this machine."""

    folder: Path
    info: Info

    @property
    def cameras(self) -> list[str]:
        """Return the names of the cameras whose pictures are in videos, such as `observation.images.front`."""
        return [name for name, feature in self.info.features.items() if feature.dtype == "video"]

    @property
    def shares_files(self) -> bool:
        """Return whether one file holds many episodes, as in the layout v3.0."""
        return self.info.codebase_version in SHARED_FILES

    def path(self, template: str, **fields: int | str) -> Path:
        """Return the path of a file, by a path in `meta/info.json` with its fields filled in.

        Raises Failure (InvalidInput) where it is not below the folder, for a data set may come from anybody, and its
        files are uploaded.
        """

        def filled(match: re.Match[str]) -> str:
            value = fields.get(match[1])
            if value is None:
                raise self.unusable(f"{INFO} has the path {template!r} with the unknown field {match[1]!r}.")
            return f"{value:0{match[2]}d}" if match[2] and isinstance(value, int) else str(value)

        relative = os.path.normpath(_FIELD.sub(filled, template))
        if relative.startswith(("/", "..")) or "\0" in relative:
            raise self.unusable(f"{INFO} has the path {template!r}, which leads out of the data set.")
        return self.folder / relative

    def unusable(self, message: str, remedy: str = "") -> Failure:
        """Return the failure of a data set that is damaged, incomplete or of another layout."""
        return Failure(
            "InvalidInput",
            f"The data set {self.folder}: {message}",
            remedy or "Download it again as a whole: hf download OWNER/NAME --repo-type dataset --local-dir FOLDER",
        )


def is_data_set(path: Path) -> bool:
    """Return whether a path is the folder of a LeRobot data set."""
    return (path / INFO).is_file()


def open_data_set(folder: Path) -> DataSet:
    """Return the data set in a folder.

    Raises Failure (InvalidInput) where the folder has none, or has another layout.
    """
    path = folder / INFO
    try:
        if path.stat().st_size > _SIZE_LIMIT:
            raise ValueError(f"it has more than {_SIZE_LIMIT:,} bytes")
        info = Info.model_validate_json(path.read_bytes())
    except (OSError, ValueError) as error:
        reason = explain(error) if isinstance(error, ValidationError) else str(error)
        raise Failure(
            "InvalidInput",
            f"{path} cannot be read: {reason}.",
            "Name the folder of a LeRobot data set, in which meta/, data/ and videos/ are.",
        ) from error
    data_set = DataSet(folder, info)
    if info.codebase_version not in (*ONE_FILE_EACH, *SHARED_FILES):
        raise data_set.unusable(
            f"it has the layout {info.codebase_version}; {', '.join((*ONE_FILE_EACH, *SHARED_FILES))} can be read.",
            "Convert it with LeRobot: its page on data sets says how.",
        )
    if data_set.cameras and info.video_path is None:
        raise data_set.unusable(f"{INFO} does not say where its videos are.")
    return data_set
