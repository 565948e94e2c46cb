"""What we change in vLLM: it reads our clips as they are, and starts sooner. Each of its processes calls `register`.

Its own loaders decode a second time, sample by rules of their own (`fps` is honoured in some places only), and know no
cut. So the frames are decoded by us, once, for every engine alike. `pyproject.toml` names this for vLLM's plugins.
"""

from typing import Any

VIDEO_BACKEND = "cosmos_batch"


def register() -> None:
    """Make the video backend known, which `--media-io-kwargs` chooses, and spare a start the dummy video."""
    _read_clips()
    _skip_dummy_media()


def _read_clips() -> None:
    from vllm.multimodal.video import VIDEO_LOADER_REGISTRY, VideoLoader

    @VIDEO_LOADER_REGISTRY.register(VIDEO_BACKEND)
    class ClipLoader(VideoLoader):
        """Frames that were sampled and fitted before."""

        @classmethod
        def load_bytes(cls, data: bytes, **_: Any) -> tuple[Any, dict[str, Any]]:
            from cosmos_batch.media.clip_files import read_clip

            frames, metadata = read_clip(data)
            return frames, {**metadata, "do_sample_frames": False}


def _skip_dummy_media() -> None:
    """Before it is ready, a server prepares a dummy image and video as long as the context, on one core: 11 to 14 s
    on the host of an H100. The first clip takes their place; ours are prepared already."""
    try:
        from vllm.renderers.base import BaseRenderer
    except ImportError:  # older than renderers
        return
    BaseRenderer._warmup_mm_processor = lambda *_, **__: None
