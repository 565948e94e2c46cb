"""Videos, images, sound and action files: probed, decoded for a model, and written from what a model generated.

An uploaded file may be hostile, so `probe` checks it before anything is decoded. What is wrong with it is raised as
`Failure("InvalidInput")`, which says what the file contains and what to do; what is wrong with a file that an engine
generated is raised as `Failure("EngineFailed")` (`errors`).

`control_signals` must be imported by itself, because it needs OpenCV, which a reasoner's environment may lack.
"""

from cosmos_batch.media.action_files import read_actions, write_actions
from cosmos_batch.media.displaying import displayed_frames, displayed_image, displayed_size
from cosmos_batch.media.errors import label_failures
from cosmos_batch.media.frame_cropping import (
    first_frame_times,
    frame_count_at,
    frame_times_at,
    frames_at_size,
    image_at_size,
)
from cosmos_batch.media.frame_sampling import Clip, sample_frames
from cosmos_batch.media.images import read_image
from cosmos_batch.media.output_checks import WantedVideo, check_actions, check_image, check_video
from cosmos_batch.media.previews import write_contact_sheet, write_gif
from cosmos_batch.media.probing import ImageInfo, VideoInfo, probe, probe_control, upright_size
from cosmos_batch.media.rewriting import rewrite_video
from cosmos_batch.media.signatures import note_on_name
from cosmos_batch.media.sound import Sound
from cosmos_batch.media.writing import exact_rate, write_image, write_video

__all__ = [
    "Clip",
    "ImageInfo",
    "Sound",
    "VideoInfo",
    "WantedVideo",
    "check_actions",
    "check_image",
    "check_video",
    "displayed_frames",
    "displayed_image",
    "displayed_size",
    "exact_rate",
    "first_frame_times",
    "frame_count_at",
    "frame_times_at",
    "frames_at_size",
    "image_at_size",
    "label_failures",
    "note_on_name",
    "probe",
    "probe_control",
    "read_actions",
    "read_image",
    "rewrite_video",
    "sample_frames",
    "upright_size",
    "write_actions",
    "write_contact_sheet",
    "write_gif",
    "write_image",
    "write_video",
]
