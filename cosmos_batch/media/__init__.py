"""What a file really is, and what a model sees of it: probing, images, frames, fitting to the model.

Every file is hostile until it is probed. Whatever is wrong with one is a `Failure("InvalidInput")` that tells a person
what was found and what to do.
"""

from cosmos_batch.media.fitting import PixelBudget
from cosmos_batch.media.frames import Clip, sample_frames
from cosmos_batch.media.images import read_image
from cosmos_batch.media.probing import ImageInfo, VideoInfo, probe
from cosmos_batch.media.refusal import labelled
from cosmos_batch.media.size import upright_size

__all__ = [
    "Clip",
    "ImageInfo",
    "PixelBudget",
    "VideoInfo",
    "labelled",
    "probe",
    "read_image",
    "sample_frames",
    "upright_size",
]
