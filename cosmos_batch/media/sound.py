"""Converts sound to what all players accept, 48 kHz stereo, and cuts it into pieces for an encoder."""

from dataclasses import dataclass
from fractions import Fraction

import av
import numpy as np

from cosmos_batch.media.errors import unusable_output

RATE = 48_000  # samples a second
CHANNELS = 2
_LAYOUTS = {1: "mono", 2: "stereo"}


@dataclass(frozen=True)
class Sound:
    """Samples between -1 and 1, of shape [channels, samples], and the sample rate in Hz."""

    samples: np.ndarray
    rate: int = RATE


def stereo(sound: Sound) -> np.ndarray:
    """Return the samples at 48 kHz in two channels, clipped to -1 and 1, as float32.

    Raises Failure (EngineFailed) where their shape is not that of sound, or where they hold NaN or infinity.
    """
    samples = np.asarray(sound.samples, np.float32)
    if samples.ndim != CHANNELS or len(samples) not in _LAYOUTS:
        raise unusable_output(f"sound of shape {list(samples.shape)}; one or two channels of samples were expected")
    if not np.isfinite(samples).all():
        raise unusable_output("sound that holds values which are no numbers (NaN or infinite)")
    samples = np.ascontiguousarray(np.clip(samples, -1, 1))
    if sound.rate != RATE:
        samples = _resampled(samples, sound.rate)
    return samples if len(samples) == CHANNELS else np.repeat(samples, CHANNELS, axis=0)


def piece(samples: np.ndarray, start: int, end: int) -> av.AudioFrame:
    """Return the samples from `start` to `end` as a frame for an encoder, with silence where there are none."""
    part = samples[:, start:end]
    padded = np.pad(part, ((0, 0), (0, end - start - part.shape[1])))
    frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(padded), format="fltp", layout="stereo")
    frame.sample_rate, frame.time_base, frame.pts = RATE, Fraction(1, RATE), start
    return frame


def _resampled(samples: np.ndarray, rate: int) -> np.ndarray:
    layout = _LAYOUTS[len(samples)]
    resampler = av.AudioResampler("fltp", layout, RATE)
    frame = av.AudioFrame.from_ndarray(samples, format="fltp", layout=layout)
    frame.sample_rate = rate
    return np.concatenate(
        [part.to_ndarray() for part in [*resampler.resample(frame), *resampler.resample(None)]], axis=1
    )
