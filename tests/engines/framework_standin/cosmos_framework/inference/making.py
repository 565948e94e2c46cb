"""The stand-in's outputs: a band that moves over the picture, in the files that the framework writes."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
from PIL import Image

# The tests need these entries of the framework's `IMAGE_RES_SIZE_INFO` and `VIDEO_RES_SIZE_INFO`.
SIZES = {("256", "16,9"): (320, 192), ("256", "1,1"): (256, 256), ("480", "16,9"): (832, 480)}


def make(sample: SimpleNamespace) -> tuple[dict[str, Any], list[Path]]:
    """Write the files of one output, and return its content and their paths."""
    sample.output_dir.mkdir(parents=True, exist_ok=True)
    seen = _seen(sample)
    width, height = (
        seen.shape[1::-1] if "dynamics" in sample.model_mode or sample.model_mode == "wam" else _size(sample)
    )
    count = 1 if "one frame" in sample.prompt else sample.num_frames
    if sample.num_frames == 1:
        path = sample.output_dir / "vision.jpg"
        Image.fromarray(_frame(0, width, height)).save(path, quality=sample.image_save_quality)
    else:
        path = sample.output_dir / "vision.mp4"
        _write(path, [_frame(index, width, height) for index in range(count)], sample.fps, sample.enable_sound)
    return _content(sample), [path, *_controls(sample)]


def _size(sample: SimpleNamespace) -> tuple[int, int]:
    return SIZES[sample.resolution, sample.aspect_ratio]


def _seen(sample: SimpleNamespace) -> np.ndarray:
    """Return the first picture of the input, after checking that the input has as many frames as the mode needs."""
    path = getattr(sample, "vision_path", None)
    if path is None:
        return np.zeros((1, 1, 3), np.uint8)
    if path.endswith(".png"):
        return np.asarray(Image.open(path))
    with av.open(path) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    kept = getattr(sample, "condition_frame_indexes_vision", None)
    assert len(frames) == (max(kept) * 4 + 1 if kept else sample.num_frames)
    return frames[0]


def _content(sample: SimpleNamespace) -> dict[str, Any]:
    if sample.model_mode == "forward_dynamics":
        rows = json.loads(Path(sample.action_path).read_text())
        assert len(rows) == sample.action_chunk_size
        return {"action": rows}
    if sample.model_mode in ("inverse_dynamics", "wam"):
        return {"action": [[0.5] * sample.raw_action_dim] * sample.action_chunk_size}
    return {}


def _controls(sample: SimpleNamespace) -> list[Path]:
    """Return the paths of the controls, which the framework writes again beside its output."""
    hints = [hint for hint in ("edge", "blur", "depth", "seg", "wsm") if getattr(sample, hint, None)]
    for hint in hints:
        with av.open(getattr(sample, hint)["control_path"]) as container:
            assert sum(1 for _ in container.decode(video=0)) == sample.max_frames
    return [sample.output_dir / f"control_{hint}.mp4" for hint in hints]


def _frame(index: int, width: int, height: int) -> np.ndarray:
    pixels = np.full((height, width, 3), 60, np.uint8)
    pixels[:, (index * 8) % width :][:, :24] = (200, 80, 40)
    return pixels


def _write(path: Path, frames: list[np.ndarray], fps: int, sound: bool) -> None:
    with av.open(str(path), "w") as container:
        picture = container.add_stream("libx264", rate=fps)
        picture.height, picture.width = frames[0].shape[:2]
        voice = container.add_stream("aac", rate=48_000, layout="stereo") if sound else None
        for pixels in frames:
            container.mux(picture.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(picture.encode())
        if voice is not None:  # a second longer than the video, as the framework's
            wave = np.sin(np.arange(48_000 * (1 + len(frames) // fps)) * 0.05).astype(np.float32)
            heard = av.AudioFrame.from_ndarray(np.stack([wave, wave]) * 0.5, format="fltp", layout="stereo")
            heard.sample_rate = 48_000
            container.mux(voice.encode(heard))
            container.mux(voice.encode())
