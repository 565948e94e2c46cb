"""What a file really is, what a model sees of it, and what a model made as files.

Every file is hostile until it is probed. Whatever is wrong with one is a `Failure("InvalidInput")` that tells a person
what was found and what to do; what is wrong with a file that an engine made is a `Failure("EngineFailed")`.

`control_signals` is not gathered here: it needs OpenCV, which a reasoner's environment may lack.
"""

from cosmos_batch.media.action_files import read_actions, write_actions
from cosmos_batch.media.covering import count_at, cover_image, cover_video, first_times, times_at
from cosmos_batch.media.delivery import WantedVideo, check_actions, check_image, check_video
from cosmos_batch.media.fitting import PixelBudget
from cosmos_batch.media.frames import Clip, sample_frames
from cosmos_batch.media.images import read_image
from cosmos_batch.media.previews import write_contact_sheet, write_gif
from cosmos_batch.media.probing import ImageInfo, VideoInfo, probe
from cosmos_batch.media.rates import exact_rate
from cosmos_batch.media.refusal import labelled
from cosmos_batch.media.rewriting import rewrite_video
from cosmos_batch.media.size import upright_size
from cosmos_batch.media.sound import Sound
from cosmos_batch.media.writing import write_image, write_video

__all__ = [
    "Clip",
    "ImageInfo",
    "PixelBudget",
    "Sound",
    "VideoInfo",
    "WantedVideo",
    "check_actions",
    "check_image",
    "check_video",
    "count_at",
    "cover_image",
    "cover_video",
    "exact_rate",
    "first_times",
    "labelled",
    "probe",
    "read_actions",
    "read_image",
    "rewrite_video",
    "sample_frames",
    "times_at",
    "upright_size",
    "write_actions",
    "write_contact_sheet",
    "write_gif",
    "write_image",
    "write_video",
]
