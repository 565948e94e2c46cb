"""A plugin for vLLM that reads our decoded clips and shortens the server's start.

vLLM's own video loaders decode files again, sample frames by rules of their own (`fps` is honored in some places
only), and cannot take a part of a video. So `cosmos_batch.media` decodes every file once, in the same way for every
engine, and writes the frames to a file that this plugin's loader reads. `pyproject.toml` names `register` as an entry
point, and each of vLLM's processes calls it. See decision 050.
"""

from typing import Any

VIDEO_BACKEND = "cosmos_batch"


def register() -> None:
    """Register the video backend that `--media-io-kwargs` chooses, and leave dummy media out of the start."""
    _register_clip_loader()
    _skip_dummy_media()


def _register_clip_loader() -> None:
    from vllm.multimodal.video import VIDEO_LOADER_REGISTRY, VideoLoader

    @VIDEO_LOADER_REGISTRY.register(VIDEO_BACKEND)
    class ClipLoader(VideoLoader):
        """Loads frames that were sampled and scaled before."""

        @classmethod
        def load_bytes(cls, data: bytes, **_: Any) -> tuple[Any, dict[str, Any]]:
            from cosmos_batch.media.clip_files import read_clip

            frames, metadata = read_clip(data)
            return frames, {**metadata, "do_sample_frames": False}


def _skip_dummy_media() -> None:
    """Stop vLLM from preparing a dummy image and video of the context's length on one core before it is ready.

    That takes 11 to 14 s on the host of an H100. It warms up what our first clip warms up as well.
    """
    try:
        from vllm.renderers.base import BaseRenderer
    except ImportError:  # older releases have no renderers
        return
    BaseRenderer._warmup_mm_processor = lambda *_, **__: None
