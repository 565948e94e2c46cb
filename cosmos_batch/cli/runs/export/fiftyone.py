"""Export a run as folders that FiftyOne loads, with the media and the answers: one for images, one for videos.

The layout is that of `fiftyone.types.LegacyFiftyOneDataset` (`metadata.json`, `samples.json`, and for videos a file in
`frames/` for each): plain JSON that no release of FiftyOne's database has a say in. It was read with FiftyOne 1.22.1.
https://docs.voxel51.com/user_guide/import_datasets.html
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from cosmos_batch.catalogue.formats import Medium, extension, medium_of
from cosmos_batch.cli.runs.export.fiftyone_labels import frames_of, labels_of
from cosmos_batch.cli.runs.export.media_download import download_media, made_media
from cosmos_batch.cli.runs.export.table_rows import row_of
from cosmos_batch.cli.runs.ordered_threads import in_parallel
from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.runs import ResultLine
from cosmos_batch.viewing.marks import marks_of_answer

_FOLDERS: dict[Medium, str] = {"image": "images", "video": "videos"}
# Fields of a sample that FiftyOne has itself, or that every sample would repeat.
_LEFT_OUT = ("status", "error_code", "error_message", "error_remedy")


class _Dataset:
    """A dataset of images or of videos that is written sample by sample."""

    def __init__(self, folder: Path, medium: Medium, run: str) -> None:
        self.folder, self.medium, self.samples = folder, medium, 0
        (folder / "frames").mkdir(parents=True)
        metadata = {"media_type": medium, "info": {"run": run}}
        (folder / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
        self._file: TextIO = (folder / "samples.json").open("w", encoding="utf-8")
        self._file.write('{"samples": [')

    def add(self, line: ResultLine, media: Path) -> None:
        """Add the answer of a line, whose media lies in the dataset's folder."""
        marks = marks_of_answer(line.data, line.answer or "")
        fields = {name: value for name, value in row_of(line).items() if value not in (None, []) if name != "id"}
        sample: dict[str, Any] = {
            **{name: value for name, value in fields.items() if name not in _LEFT_OUT},
            **labels_of(marks, media, self.medium),
            "item": line.id,
            "filepath": str(media.relative_to(self.folder)),
            "tags": [],
            "metadata": None,
        }
        if self.medium == "video":
            frames = self.folder / "frames" / f"{media.stem}.json"
            frames.write_text(json.dumps({"frames": frames_of(marks, media)}), encoding="utf-8")
            sample["frames"] = str(frames.relative_to(self.folder))
        self._file.write(f"{',' if self.samples else ''}\n{json.dumps(sample, ensure_ascii=False)}")
        self.samples += 1

    def close(self) -> None:
        """End the list of samples."""
        self._file.write("]}\n")
        self._file.close()


class _Answer(NamedTuple):
    """An answer, its number in the export, and the URI of the file that is its sample's media."""

    number: int
    line: ResultLine
    uri: str

    @property
    def medium(self) -> Medium:
        return medium_of(self.uri)


def write(run: StoredRun, lines: Iterator[ResultLine], path: Path) -> list[str]:
    """Download the media of all answers, and write the answers as samples. A generation's media is what it made."""
    path.mkdir(parents=True)
    datasets: dict[Medium, _Dataset] = {}
    left_out, example = 0, ""
    with ExitStack() as open_datasets:
        for answer, media in in_parallel(lambda one: (one, _download(run, path, one)), _with_media(lines)):
            if media is not None and answer.medium not in datasets:
                datasets[answer.medium] = _Dataset(path / _FOLDERS[answer.medium], answer.medium, run.run)
                open_datasets.callback(datasets[answer.medium].close)
            if media is None or not _is_added(datasets[answer.medium], answer.line, media):
                left_out, example = left_out + 1, example or answer.uri
    gone = (
        f"{counted(left_out, 'answer')} left out whose file is gone, damaged or an image named as a video, such as "
        f"{example}."
    )
    return [*_how_to_load(datasets), *([gone] if left_out else [])]


def _is_added(dataset: _Dataset, line: ResultLine, media: Path) -> bool:
    """Add a line to a dataset. Returns False where its media cannot be read as what they are named."""
    try:
        dataset.add(line, media)
    except Failure:
        return False
    return True


def _with_media(lines: Iterator[ResultLine]) -> Iterator[_Answer]:
    """Yield each line without an error, with the file that it is about."""
    for number, line in enumerate(lines):
        uri = made_media(line) or line.input
        if line.error is None and uri is not None:
            yield _Answer(number, line, uri)


def _download(run: StoredRun, path: Path, answer: _Answer) -> Path | None:
    """Download a file under a number, because a key may be any text. Returns None where it is gone."""
    folder = path / _FOLDERS[answer.medium] / "data"
    folder.mkdir(parents=True, exist_ok=True)
    media = folder / f"{answer.number:08}{extension(answer.uri)}"
    return media if download_media(run, answer.uri, media) else None


def _how_to_load(datasets: dict[Medium, _Dataset]) -> list[str]:
    return [
        f"{counted(dataset.samples, medium)}: fiftyone.Dataset.from_dir('{_FOLDERS[medium]}', "
        "dataset_type=fiftyone.types.LegacyFiftyOneDataset), in the new folder"
        for medium, dataset in datasets.items()
    ]
