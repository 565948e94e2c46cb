"""Decides which videos the GPU's own decoder (NVDEC) decodes, and gives FFmpeg the settings to use it.

H.264 and H.265 prescribe every bit of a decoded frame, so the GPU's frames equal those of the CPU. But the CPU's
decoder reports a frame whose data are damaged, and the GPU's does not.
"""

from functools import cache

import av
import numpy as np
from av.codec import Codec
from av.codec.hwaccel import HWAccel

from cosmos_batch.media.probing import VideoInfo

CODECS = ("h264", "hevc")
PIXEL_FORMAT = "yuv420p"  # 8 bits a value, limited range; the GPU's decoder gives the same values in the format `nv12`
# A CPU core decodes this many pixels in about half a second (benchmarks/reasoner/decoding.py: 1.9 s for 300 frames of
# 1920 x 1080). For fewer, starting the GPU's decoder gains nothing.
LEAST_PIXELS = 150_000_000
# Videos that are decoded at once, with few cores too. On an H200 with four cores six threads sampled more clips of
# 1920 x 1080 a second than four or five, and the first of them sooner than eight (docs/benchmarks.md).
AT_ONCE = 6


@cache
def device_of_this_process() -> HWAccel | None:
    """Return this process's connection to the first GPU; None if FFmpeg cannot decode video on it.

    FFmpeg destroys the CUDA context when its last connection is closed, and would create it anew for each file. So this
    connection stays open.
    """
    try:
        return gpu_decoder().create(Codec(CODECS[0], "r"))
    except (av.FFmpegError, NotImplementedError):  # no driver, or an FFmpeg without CUDA
        return None


def gpu_decoder() -> HWAccel:
    """Return the settings with which FFmpeg opens a file to decode it on the first GPU.

    Frames stay in the GPU's memory until they are scaled, so that only those that are needed are copied. All files
    share the process's own CUDA context.
    """
    return HWAccel("cuda", allow_software_fallback=False, options={"primary_ctx": "1"}, is_hw_owned=True)


def suits_gpu(info: VideoInfo, first: float, last: float) -> bool:
    """Return whether the GPU can decode a video, and decodes the part from one of its frames to another sooner than the
    CPU. `first` and `last` are the times of these frames, in seconds from the video's first frame.

    Where the format of the pixels is not known before a frame is decoded, the GPU may turn out not to suit.
    """
    begin, end = np.searchsorted(info.timeline.times, [first, last])
    decodes = info.codec in CODECS and info.pixel_format in (PIXEL_FORMAT, None)
    return decodes and int(end - begin + 1) * info.width * info.height >= LEAST_PIXELS
