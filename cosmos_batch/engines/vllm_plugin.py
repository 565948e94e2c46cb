"""What we add to vLLM: it reads our clips as they are. vLLM calls `register` in each of its processes.

Its own loaders decode a second time, sample by rules of their own (`fps` is honoured in some places only), and know no
cut. So the frames are decoded by us, once, for every engine alike. `pyproject.toml` names this for vLLM's plugins.
"""

from typing import Any

VIDEO_BACKEND = "cosmos_batch"


def register() -> None:
    """Make the video backend known; `--media-io-kwargs` chooses it."""
    from vllm.multimodal.video import VIDEO_LOADER_REGISTRY, VideoLoader

    @VIDEO_LOADER_REGISTRY.register(VIDEO_BACKEND)
    class ClipLoader(VideoLoader):
        """Frames that were sampled and fitted before."""

        @classmethod
        def load_bytes(cls, data: bytes, **_: Any) -> tuple[Any, dict[str, Any]]:
            from cosmos_batch.media.clip_files import read_clip

            frames, metadata = read_clip(data)
            return frames, {**metadata, "do_sample_frames": False}
