"""Frame rates as the fractions that they are: 29.97 frames a second are 30000 in 1001 seconds."""

import math
from fractions import Fraction

_NTSC = Fraction(1000, 1001)
_DECIMALS = (2, 3)  # with how many a broadcast rate is written: 23.98, 23.976
_LARGEST_DENOMINATOR = 1001


def exact_rate(fps: float) -> Fraction:
    """The rate that a person means by a number of frames a second."""
    broadcast = math.ceil(fps) * _NTSC
    if fps % 1 and any(round(float(broadcast), decimals) == fps for decimals in _DECIMALS):
        return broadcast
    return max(Fraction(fps).limit_denominator(_LARGEST_DENOMINATOR), Fraction(1, _LARGEST_DENOMINATOR))
