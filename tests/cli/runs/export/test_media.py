"""Exports that look at the media of a run: boxes in pixels, and folders for FiftyOne."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.runs.export import image_sizes
from cosmos_batch.contract.result import Output
from cosmos_batch.contract.runs import ResultLine
from tests.cli.runs.export.conftest import Export
from tests.support.media_files import video
from tests.support.run_objects import answered, failed

CAR = {"bbox_2d": [100, 250, 500, 750], "label": "car"}
_SIDEWAYS = 6  # the EXIF orientation of a camera that was turned


def upload(deployment: Deployment, path: Path, key: str) -> None:
    deployment.clients("s3").upload_file(str(path), "assets", key)


def picture(path: Path, size: tuple[int, int] = (400, 200), orientation: int = 1) -> Path:
    image = Image.effect_noise(size, 60).convert("RGB")
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(path, exif=exif)
    return path


def boxes(item: str, *found: dict[str, Any], **fields: Any) -> ResultLine:
    return answered(item, json.dumps(list(found)), data=list(found), **fields)


def test_boxes_are_in_pixels_of_the_upright_image(deployment: Deployment, export: Export, tmp_path: Path) -> None:
    upload(deployment, picture(tmp_path / "a.jpg"), "a.jpg")
    upload(deployment, picture(tmp_path / "b.jpg", orientation=_SIDEWAYS), "deep/b.jpg")
    lines = [boxes("a.jpg", CAR, {**CAR, "label": "van"}), boxes("b", CAR, input="s3://assets/deep/b.jpg"), failed("c")]
    path, notes = export("coco", lines)
    coco = json.loads(path.read_text(encoding="utf-8"))
    assert [(image["file_name"], image["width"], image["height"]) for image in coco["images"]] == [
        ("a.jpg", 400, 200),
        ("b.jpg", 200, 400),
    ]
    names = {category["id"]: category["name"] for category in coco["categories"]}
    found = [(one["image_id"], names[one["category_id"]], one["bbox"]) for one in coco["annotations"]]
    assert found == [
        (1, "car", [40, 50, 160, 100]),
        (1, "van", [40, 50, 160, 100]),
        (2, "car", [20, 100, 80, 200]),
    ]
    assert coco["annotations"][0]["area"] == 16_000 and notes == []


def test_an_image_of_two_answers_is_one_image(deployment: Deployment, export: Export, tmp_path: Path) -> None:
    upload(deployment, picture(tmp_path / "a.jpg"), "a.jpg")
    path, _ = export("coco", [boxes(f"a#{seed}", CAR, input="s3://assets/a.jpg") for seed in range(2)])
    coco = json.loads(path.read_text(encoding="utf-8"))
    assert len(coco["images"]) == 1 and len(coco["annotations"]) == 2


def test_only_images_with_boxes_are_measured(
    deployment: Deployment, export: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_sizes.ImageSizes, "measure", lambda *_: pytest.fail("measured"))
    path, notes = export("coco", [answered("a.jpg"), boxes("b.mp4", CAR)])
    assert json.loads(path.read_text(encoding="utf-8"))["images"] == []
    assert "1 answer with boxes on a video left out" in notes[0]


def test_images_that_are_gone_or_damaged_are_counted(deployment: Deployment, export: Export, tmp_path: Path) -> None:
    (tmp_path / "b.png").write_bytes(b"\x89PNG\r\n\x1a\nno more")
    upload(deployment, tmp_path / "b.png", "b.png")
    path, notes = export("coco", [boxes("a.jpg", CAR), boxes("b.png", CAR)])
    assert json.loads(path.read_text(encoding="utf-8"))["annotations"] == []
    assert "2 images left out that cannot be read any more" in notes[0] and "s3://assets/a.jpg" in notes[0]


@pytest.mark.parametrize("ending", ["jpg", "png", "webp"])
def test_the_head_of_an_image_tells_its_size(
    ending: str, deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = picture(tmp_path / f"a.{ending}", (900, 700))
    upload(deployment, path, path.name)
    monkeypatch.setattr(image_sizes, "_HEAD_BYTES", 4096)
    assert path.stat().st_size > 4096
    assert image_sizes.ImageSizes(deployment.clients("s3")).measure(f"s3://assets/{path.name}") == (900, 700)


def test_a_dataset_for_fiftyone_has_the_media_and_the_labels(
    deployment: Deployment, export: Export, tmp_path: Path
) -> None:
    upload(deployment, picture(tmp_path / "a.jpg"), "a.jpg")
    upload(deployment, video(tmp_path / "b.mp4", frames=40, fps=10), "../b.mp4")
    event = {"start": 1.0, "end": "00:02.00", "caption": "turns"}
    moment = {**CAR, "time": 1.5}
    clip = answered("b", json.dumps([event, moment]), input="s3://assets/../b.mp4", variant={"seed": 1})
    path, notes = export("fiftyone", [boxes("a.jpg", CAR, {"point_2d": [500, 500]}), clip, failed("c"), answered("d")])

    (image,) = json.loads((path / "images/samples.json").read_text(encoding="utf-8"))["samples"]
    assert image["boxes"]["detections"][0] | {"bounding_box": [], "label": "car"} == {
        "_cls": "Detection", "label": "car", "bounding_box": [], "attributes": {}, "tags": [],
    }  # fmt: skip
    assert image["boxes"]["detections"][0]["bounding_box"] == pytest.approx([0.1, 0.25, 0.4, 0.5])
    assert image["points"]["keypoints"][0]["points"] == [[0.5, 0.5]]
    assert image["item"] == "a.jpg" and image["dollars"] == 0.001 and "frames" not in image
    assert (path / "images" / image["filepath"]).read_bytes() == (tmp_path / "a.jpg").read_bytes()

    (sample,) = json.loads((path / "videos/samples.json").read_text(encoding="utf-8"))["samples"]
    assert sample["events"]["detections"][0]["support"] == [11, 21], "frames are counted from 1"
    assert sample["variant"] == '{"seed": 1}' and "events" in sample
    frames = json.loads((path / "videos" / sample["frames"]).read_text(encoding="utf-8"))["frames"]
    assert list(frames) == ["16"] and frames["16"]["frame_number"] == 16
    assert frames["16"]["boxes"]["detections"][0]["label"] == "car"
    assert json.loads((path / "videos/metadata.json").read_text(encoding="utf-8"))["media_type"] == "video"
    assert all(file.resolve().is_relative_to(path.resolve()) for file in path.rglob("*")), "no key leaves the folder"
    assert [note[:9] for note in notes] == ["1 image: ", "1 video: ", "1 answer "]


def test_an_image_named_as_a_video_is_left_out(deployment: Deployment, export: Export, tmp_path: Path) -> None:
    upload(deployment, picture(tmp_path / "a.png"), "a.mp4")
    upload(deployment, video(tmp_path / "b.mp4"), "b.mp4")
    path, notes = export("fiftyone", [boxes("a.mp4", CAR), boxes("b.mp4", CAR)])
    (sample,) = json.loads((path / "videos/samples.json").read_text(encoding="utf-8"))["samples"]
    assert sample["item"] == "b.mp4"
    assert "1 answer left out" in notes[-1] and "s3://assets/a.mp4" in notes[-1]


def test_a_sample_of_a_generation_shows_what_was_made(deployment: Deployment, export: Export, tmp_path: Path) -> None:
    upload(deployment, picture(tmp_path / "made.png"), "made.png")
    outputs = [Output(uri=f"s3://assets/{name}", size=1, content_type="x/y") for name in ("made.json", "made.png")]
    path, _ = export("fiftyone", [answered("a", None, input=None, prompt="A car.", outputs=outputs)])
    (sample,) = json.loads((path / "images/samples.json").read_text(encoding="utf-8"))["samples"]
    assert sample["prompt"] == "A car." and (path / "images" / sample["filepath"]).is_file()


@pytest.mark.parametrize("name", ["fiftyone", "sheets"])
def test_a_folder_of_a_run_without_any_answer_is_empty(export: Export, name: str) -> None:
    path, _ = export(name, [failed("a"), failed("b")])
    assert path.is_dir() and not list(path.iterdir())
