"""Files are opened without decoding more than is needed, and no frame above the limit of pixels."""

from pathlib import Path

import pytest

from cosmos_batch.media import decoding
from tests.support import media_files


@pytest.mark.parametrize("name", ["h264.avi", "camera.ts"])
def test_the_order_is_found_out_where_headers_do_not_describe_the_video(tmp_path: Path, name: str) -> None:
    path = media_files.video(tmp_path / name, codec="libx264", codec_options={"bf": "2"})
    with decoding.open_video(path, reorder_depth=7) as (_, stream):
        assert stream.codec_context.pix_fmt == "yuv420p" and stream.codec_context.reorder_depth != 7


@pytest.mark.parametrize("extension", [".avi", ".webm"])
def test_opening_a_file_decodes_no_frame_larger_than_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str
) -> None:
    path = media_files.video(tmp_path / f"clip{extension}")
    monkeypatch.setattr(decoding, "VIDEO_PIXEL_LIMIT", 160 * 128 - 1)
    with decoding.open_video(path) as (_, stream):
        assert stream.codec_context.width == 0, "only a decoded frame tells FFmpeg the size"
