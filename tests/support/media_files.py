"""Small video and image files for tests: good ones, and every kind of damaged or misleading one."""

import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image

FPS = 10
CODECS = {
    **dict.fromkeys((".mp4", ".mov", ".mkv", ".m4v", ".ts"), "libx264"),
    **{".avi": "mpeg4", ".webm": "libvpx-vp9", ".gif": "gif"},
}


def grey_at(frame: int, frames: int) -> int:
    """Return the gray level of a frame of `video`, from 20 in the first to 220 in the last: it shows the time."""
    return round(20 + 200 * frame / max(1, frames - 1))


def video(
    path: Path,
    *,
    frames: int = 40,
    fps: int = FPS,
    width: int = 160,
    height: int = 128,
    rotation: int | None = None,
    pixel_shape: Fraction | None = None,
    paint: Callable[[int], np.ndarray] | None = None,
    pts: Callable[[int], int] | None = None,
    options: dict[str, str] | None = None,
    codec: str | None = None,
    codec_options: dict[str, str] | None = None,
    pixel_format: str = "yuv420p",
    colours: dict[str, int] | None = None,
) -> Path:
    """Write a clip in the usual codec of its extension. Each frame has the level `grey_at`, or is drawn by `paint`."""

    def plain(index: int) -> np.ndarray:
        return np.full((height, width, 3), grey_at(index, frames), np.uint8)

    container_format = "mp4" if path.suffix == ".m4v" else None  # FFmpeg takes the extension for a raw stream
    pixel_format = "rgb8" if path.suffix == ".gif" else pixel_format
    with av.open(str(path), "w", format=container_format, options=options or {}) as container:
        stream: Any = container.add_stream(codec or CODECS[path.suffix], rate=fps, options=codec_options)
        stream.width, stream.height, stream.pix_fmt = width, height, pixel_format
        stream.codec_context.thread_count = 1  # with more, the file depends on the number of cores
        for name, value in (colours or {}).items():
            setattr(stream.codec_context, name, value)
        if pixel_shape is not None:
            stream.codec_context.sample_aspect_ratio = pixel_shape
        if rotation is not None:
            stream.set_display_rotation(rotation)
        container.start_encoding()
        for index in range(frames):
            frame = av.VideoFrame.from_ndarray((paint or plain)(index), format="rgb24")
            frame.pts = pts(index) if pts else index
            frame.time_base = Fraction(1, fps)
            container.mux(stream.encode(frame))
        if frames:
            container.mux(stream.encode())
    return path


def image(path: Path, width: int = 64, height: int = 48, **save: Any) -> Path:
    """Write a red picture in the format of its extension; a HEIC's left half is blue."""
    if path.suffix == ".heic":
        return heic(path, width, height)
    Image.new("RGB", (width, height), "red").save(path, **save)
    return path


def cut(source: Path, target: Path, share: float = 0.7) -> Path:
    """Cut a file to its first part, as an interrupted upload leaves it."""
    data = source.read_bytes()
    target.write_bytes(data[: int(len(data) * share)])
    return target


def mp4_without_index(folder: Path) -> Path:
    """Write an MP4 that is cut long before the index at its end."""
    return cut(video(folder / "whole.mp4"), folder / "cut.mp4", share=0.3)


def mp4_without_its_end(folder: Path, share: float = 0.7) -> Path:
    """Write an MP4 that is cut after the index in front, which lists more than there is."""
    return cut(video(folder / "whole.mp4", options={"movflags": "faststart"}), folder / "cut.mp4", share)


def mp4_with_another_size_in_its_header(folder: Path, width: int, height: int) -> Path:
    """Write a clip of 160 x 128 of which the header says another size."""
    path = video(folder / "another-size.mp4")
    data = bytearray(path.read_bytes())
    struct.pack_into(">HH", data, data.index(b"avc1", data.index(b"stsd")) + 28, width, height)
    path.write_bytes(data)
    return path


def mp4_with_damage(folder: Path) -> Path:
    """Write a complete MP4 whose last fifth is replaced by noise."""
    path = video(folder / "damaged.mp4", options={"movflags": "faststart"})
    data = bytearray(path.read_bytes())
    start = len(data) * 4 // 5
    data[start:] = np.random.default_rng(0).bytes(len(data) - start)
    path.write_bytes(data)
    return path


def mp4_with_a_hole(folder: Path, start: float, end: float) -> Path:
    """Write an MP4 of ten key frames a second, of which those between two times are noise."""
    path = video(folder / "hole.mp4", codec_options={"g": "1"})
    data = bytearray(path.read_bytes())
    with av.open(str(path)) as container:
        for packet in container.demux(video=0):
            if packet.pts is None or packet.time_base is None or packet.pos is None:
                continue
            if start <= float(packet.pts * packet.time_base) < end:
                data[packet.pos : packet.pos + packet.size] = bytes(packet.size)
    path.write_bytes(data)
    return path


def mp4_without_frames(folder: Path) -> Path:
    """Write a well-formed MP4 with an empty video stream."""
    return video(folder / "none.mp4", frames=0, options={"movflags": "empty_moov"})


def mp4_without_streams(folder: Path) -> Path:
    """Write a well-formed MP4 without any stream."""
    return video(folder / "nothing.mp4", frames=0)


def mp4_without_picture(folder: Path) -> Path:
    """Write an MP4 with sound only."""
    path = folder / "sound.mp4"
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("aac", rate=48000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 48000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def png_named_mp4(folder: Path) -> Path:
    """Write a PNG with the extension of a video."""
    return image(folder / "picture.png").rename(folder / "picture.mp4")


def png_named_jpg(folder: Path) -> Path:
    """Write a PNG with the extension of another image format."""
    return image(folder / "picture.png").rename(folder / "picture.jpg")


def text_named_mp4(folder: Path) -> Path:
    """Write a text with the extension of a video."""
    path = folder / "notes.mp4"
    path.write_text("these are my notes, not a film\n")
    return path


def empty(folder: Path) -> Path:
    """Write an empty file."""
    path = folder / "empty.mp4"
    path.touch()
    return path


def wide_png(folder: Path) -> Path:
    """Write a valid PNG that is 20,000 pixels wide."""
    return image(folder / "wide.png", 20_000, 10)


def cut_jpg(folder: Path) -> Path:
    """Write a JPEG without its last third."""
    noise = np.random.default_rng(0).integers(0, 255, (200, 200, 3), np.uint8)
    Image.fromarray(noise).save(folder / "whole.jpg")
    return cut(folder / "whole.jpg", folder / "cut.jpg")


def animated_webp(folder: Path) -> Path:
    """Write an animated WebP of three pictures, each shown for 0.1 s."""
    frames = [Image.new("RGB", (32, 32), colour) for colour in ("red", "blue", "green")]
    frames[0].save(folder / "moving.webp", save_all=True, append_images=frames[1:], duration=100)
    return folder / "moving.webp"


def animated_gif(folder: Path) -> Path:
    """Write an animated GIF of three pictures, each shown for 0.1 s."""
    frames = [Image.new("RGB", (32, 32), colour) for colour in ("red", "blue", "green")]
    frames[0].save(folder / "moving.gif", save_all=True, append_images=frames[1:], duration=100)
    return folder / "moving.gif"


def gif_named_mp4(folder: Path) -> Path:
    """Write an animated GIF with the extension of a video."""
    return animated_gif(folder).rename(folder / "moving.mp4")


def animated_png(folder: Path) -> Path:
    """Write an animated PNG, which nothing here can show."""
    frames = [Image.new("RGB", (32, 32), colour) for colour in ("red", "blue")]
    frames[0].save(folder / "moving.png", save_all=True, append_images=frames[1:], duration=100)
    return folder / "moving.png"


def heic(path: Path, width: int = 64, height: int = 48, orientation: int = 1) -> Path:
    """Write a HEIC as phones do: red, its left half blue as it is stored, with an orientation of EXIF."""
    import pillow_heif

    pillow_heif.register_heif_opener()
    picture, exif = Image.new("RGB", (width, height), "red"), Image.Exif()
    picture.paste("blue", (0, 0, width // 2, height))
    exif[0x0112] = orientation
    # As bytes: pillow-heif writes the rotation of a HEIC only from these.
    picture.save(path, format="HEIF", exif=exif.tobytes())
    return path


def avif(folder: Path) -> Path:
    """Write an AVIF, which is not accepted."""
    return image(folder / "picture.avif")


def avif_named_heic(folder: Path) -> Path:
    """Write an AVIF with the extension of a phone's image."""
    return avif(folder).rename(folder / "picture.heic")


def hdr_mp4(folder: Path) -> Path:
    """Write an HDR video with ten bits a channel, BT.2020 and the perceptual quantizer, as phones record it."""
    colours = {"color_primaries": 9, "color_trc": 16, "colorspace": 9}
    return video(folder / "hdr.mp4", codec="libx265", pixel_format="yuv420p10le", colours=colours)


def variable_mp4(folder: Path) -> Path:
    """Write a video with 20 frames in two seconds, and 20 in the next ten."""
    return video(folder / "variable.mp4", pts=lambda index: index if index < 20 else 20 + (index - 20) * 5)


def sounding_mp4(folder: Path) -> Path:
    """Write a video with a sound track, which is the first stream."""
    path = folder / "sounding.mp4"
    with av.open(str(path), "w") as container:
        sound: Any = container.add_stream("aac", rate=48000)
        stream: Any = container.add_stream("libx264", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = 160, 128, "yuv420p"
        samples = av.AudioFrame.from_ndarray(np.zeros((1, 48000 * 4), np.float32), format="fltp", layout="mono")
        samples.sample_rate = 48000
        container.mux(sound.encode(samples))
        for index in range(40):
            frame = av.VideoFrame.from_ndarray(np.full((128, 160, 3), grey_at(index, 40), np.uint8), format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, FPS)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
        container.mux(sound.encode())
    return path


def ten_hours(folder: Path) -> Path:
    """Write a video of 3,600 small frames, one every ten seconds."""
    return video(folder / "long.mp4", frames=3600, fps=1, width=32, height=32, pts=lambda index: 10 * index)


# What is out of the ordinary, and fine; each begins at `grey_at(0)` and ends at the last.
ODD: dict[str, Callable[[Path], Path]] = {
    "rotated": lambda folder: video(folder / "phone.mp4", rotation=90),
    "variable rate": variable_mp4,
    "alpha": lambda folder: video(folder / "alpha.mov", codec="png", pixel_format="rgba"),
    "VP9 with alpha": lambda folder: video(folder / "alpha.webm", pixel_format="yuva420p"),
    "10-bit HDR": hdr_mp4,
    "with sound": sounding_mp4,
    "odd sides": lambda folder: video(folder / "odd.webm", width=161, height=127),
    "4:4:4 of odd sides": lambda folder: video(folder / "odd.mp4", width=161, height=127, pixel_format="yuv444p"),
    "two pixels": lambda folder: video(folder / "tiny.mp4", width=2, height=2),
}

# What must be refused with InvalidInput, and a word that its message must have.
REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "empty file": (empty, "empty"),
    "text named .mp4": (text_named_mp4, "text"),
    "mp4 without index": (mp4_without_index, "truncated"),
    "mp4 cut off": (mp4_without_its_end, "truncated"),
    "mp4 without frames": (mp4_without_frames, "no frames"),
    "mp4 without streams": (mp4_without_streams, "no frames"),
    "mp4 without picture": (mp4_without_picture, "no video stream"),
    "20,000 px wide PNG": (wide_png, "20,000"),
    "animated PNG": (animated_png, "animation"),
    "AVIF named .heic": (avif_named_heic, "AVIF"),
}
