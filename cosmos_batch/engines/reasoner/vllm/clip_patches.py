"""Cuts the frames of a clip into the patches that a vision encoder of the Qwen3-VL family takes.

transformers' video processor returns the same patches, but one thread of vLLM's server runs it for all requests. This
takes a tenth of its time, holds no lock of Python's meanwhile, and so runs in the threads that read the clips.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PatchSizes:
    """The sizes with which a vision encoder was trained.

    Attributes
    ----------
    patch
        Pixels of a side of a patch.
    merge
        Patches of a side of the square that becomes one token.
    frames
        Frames that one patch covers.
    """

    patch: int
    merge: int
    frames: int

    def grid(self, frames: np.ndarray) -> tuple[int, int, int]:
        """Return how many patches a clip [T, H, W, 3] has in time, height and width."""
        count, height, width, _ = frames.shape
        return -(-count // self.frames), height // self.patch, width // self.patch

    def holds_whole_tokens(self, frames: np.ndarray) -> bool:
        """Return whether the height and width of the frames are multiples of the side of a token, in pixels."""
        side = self.patch * self.merge
        return frames.ndim == 4 and frames.shape[1] % side == 0 and frames.shape[2] % side == 0


def cut_patches(frames: np.ndarray, sizes: PatchSizes) -> np.ndarray:
    """Return the patches of a clip [T, H, W, 3] as rows, those of one token side by side; the values stay bytes.

    The last frame is repeated up to a whole number of patches in time.
    """
    missing = -len(frames) % sizes.frames
    if missing:
        frames = np.concatenate([frames, np.repeat(frames[-1:], missing, axis=0)])
    _, height, width, channels = frames.shape
    rows, columns = (side // sizes.patch // sizes.merge for side in (height, width))
    cut = frames.reshape(
        len(frames) // sizes.frames,
        sizes.frames,
        *(rows, sizes.merge, sizes.patch),
        *(columns, sizes.merge, sizes.patch),
        channels,
    )
    # To: time, row and column of the token, row and column of the patch in it, channel, frame, and row and column.
    ordered = np.ascontiguousarray(cut.transpose(0, 2, 5, 3, 6, 8, 1, 4, 7))
    return ordered.reshape(-1, channels * sizes.frames * sizes.patch**2)
