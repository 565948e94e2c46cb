"""The demo's checkpoint and media."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from cosmos_batch.demo import checkpoint as demo_checkpoint
from cosmos_batch.demo.checkpoint import NAME, build_random_checkpoint
from cosmos_batch.demo.media import sample_clip, sample_image
from cosmos_batch.media import ImageInfo, VideoInfo, probe

# Of a snapshot of nvidia/Cosmos-Reason2-2B, less its papers.
LAYOUT = {
    "chat_template.json",
    "config.json",
    "generation_config.json",
    "merges.txt",
    "model.safetensors",
    "preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "video_preprocessor_config.json",
    "vocab.json",
}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_checkpoint_has_the_layout_of_the_real_checkpoint(tmp_path: Path) -> None:
    folder = build_random_checkpoint(tmp_path / "models")
    assert folder == tmp_path / "models" / NAME
    assert "random" in folder.name
    assert set(contents(folder)) == LAYOUT


def test_the_checkpoint_is_the_same_everywhere(tmp_path: Path) -> None:
    assert contents(build_random_checkpoint(tmp_path / "a")) == contents(build_random_checkpoint(tmp_path / "b"))


def test_a_built_checkpoint_is_not_built_again(tmp_path: Path) -> None:
    first = build_random_checkpoint(tmp_path)
    (first / "config.json").write_text("touched")
    assert (build_random_checkpoint(tmp_path) / "config.json").read_text() == "touched"


def test_a_build_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_checkpoint, "random_weights", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        build_random_checkpoint(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_builders_at_once_leave_one_whole_checkpoint(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        folders = list(pool.map(build_random_checkpoint, [tmp_path] * 4))
    assert set(folders) == {tmp_path / NAME}
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert set(contents(folders[0])) == LAYOUT


def test_the_clip_is_a_small_video(tmp_path: Path) -> None:
    path = sample_clip(tmp_path / "clip.mp4")
    found = probe(path)
    assert isinstance(found, VideoInfo)
    assert found.codec == "h264"
    assert found.timeline.duration == pytest.approx(4)
    assert path.stat().st_size < 100_000


def test_the_clip_is_written_whatever_its_name(tmp_path: Path) -> None:
    assert sample_clip(tmp_path / "clip.tmp").read_bytes()[4:8] == b"ftyp"


@pytest.mark.parametrize("name", ["picture.png", "picture.jpg", "picture.webp"])
def test_the_image_is_written_in_the_format_of_its_name(tmp_path: Path, name: str) -> None:
    path = sample_image(tmp_path / name)
    assert probe(path) == ImageInfo(320, 240)
    with Image.open(path) as picture:
        middle = red_middle(np.asarray(picture.convert("RGB")))
    assert middle == pytest.approx(60, abs=3), "the red circle, where the clip begins"


def test_the_red_circle_of_the_clip_goes_to_the_right(tmp_path: Path) -> None:
    with av.open(str(sample_clip(tmp_path / "clip.mp4"))) as container:
        pictures = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]

    places = [red_middle(pictures[index]) for index in (0, 12, 18, 24)]
    assert places == sorted(places)
    assert places[-1] - places[0] > 100


def red_middle(picture: np.ndarray) -> float:
    red, green, blue = (picture[..., channel].astype(int) for channel in range(3))
    return float(np.nonzero((red > 150) & (green < 90) & (blue < 90))[1].mean())


@pytest.mark.parametrize(("what", "name"), [("checkpoint", "models"), ("clip", "a.mp4"), ("image", "a.png")])
def test_the_module_writes_what_its_command_names(tmp_path: Path, what: str, name: str) -> None:
    command = [sys.executable, "-m", "cosmos_batch.demo", what, str(tmp_path / name)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert Path(output.strip()).exists()
