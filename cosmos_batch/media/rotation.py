"""Tells how a video's frames are turned for display."""

import av

_QUARTER_TURN = 90  # degrees


def quarter_turns(frame: av.VideoFrame) -> int:
    """Return by how many quarter turns, counterclockwise, a frame is turned for display: 0 to 3.

    Phones store portrait video on its side, with a display matrix. A matrix that is no quarter turn, such as one of
    zeros, turns nothing.
    """
    turns, rest = divmod(frame.rotation, _QUARTER_TURN)
    return 0 if rest else turns % 4
