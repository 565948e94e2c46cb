"""A plugin for vLLM that reads our decoded clips and shortens the server's start.

vLLM's own video loaders decode files again, sample frames by rules of their own (`fps` is honored in some places
only), and cannot take a part of a video. So `cosmos_batch.media` decodes every file once, in the same way for every
engine, and writes the frames to a file that this plugin's loader reads. `pyproject.toml` names `register` as an entry
point, and each of vLLM's processes calls it. See decision 050.
"""

from collections.abc import Callable
from copy import copy
from typing import Any

from cosmos_batch.engines.reasoner.vllm import ready_clips
from cosmos_batch.media.clip_files import read_clip

VIDEO_BACKEND = "cosmos_batch"


def register() -> None:
    """Register the video backend that `--media-io-kwargs` chooses and a processor that takes its patches, and leave
    out of the start what takes long and changes no answer.
    """
    _register_clip_loader()
    _change(ready_clips.register, "prepares clips in its own way, which is slower")
    _change(_inspect_models_here, "starts another process to inspect a model, and waits for it")
    _change(_shorten_warm_up, "warms up in its own way, for which the first answer waits longer")


def _change(change: Callable[[], None], otherwise: str) -> None:
    """Change vLLM. Where a release has moved what the change uses, the log says what vLLM does `otherwise`.

    A change looks up all that it uses before it replaces anything.
    """
    from vllm.logger import init_logger

    try:
        change()
    except (ImportError, AttributeError) as error:
        init_logger(__name__).warning("This release of vLLM %s: %s: %s", otherwise, type(error).__name__, error)


def _register_clip_loader() -> None:
    from vllm.multimodal.video import VIDEO_LOADER_REGISTRY, VideoLoader

    @VIDEO_LOADER_REGISTRY.register(VIDEO_BACKEND)
    class ClipLoader(VideoLoader):
        """Loads frames that were sampled and scaled before.

        A request whose `media_io_kwargs` say `{"video": {"patches": false}}` has vLLM cut them into patches.
        """

        @classmethod
        def load_bytes(cls, data: bytes, *, patches: bool = True, **_: Any) -> tuple[Any, dict[str, Any]]:
            frames, metadata = read_clip(data)
            metadata["do_sample_frames"] = False
            return frames, ready_clips.with_patches(frames, metadata) if patches else metadata


def _inspect_models_here() -> None:
    """Give vLLM the classes of our models, which this process has imported for their processors.

    Otherwise vLLM starts another process that imports everything once more, only to look at a class; it waits for that,
    and keeps the result with the compiled code. It does so because a process that has used CUDA cannot be forked, and
    importing some models uses CUDA.
    """
    from vllm import ModelRegistry

    for model, _ in ready_clips.served_models():
        ModelRegistry.register_model(model.__name__, model)


def _shorten_warm_up() -> None:
    """Have vLLM load transformers' processor and copy the tokenizer while its engine loads.

    Otherwise the first clip waits for both. vLLM has a thread to warm up what prepares media, beside the engine's load.
    By default that thread prepares a dummy image and video of the context's length, which takes 11 to 14 s on the host
    of an H100.

    vLLM has one copy of the tokenizer for each thread that prepares requests, and makes all of them before it starts
    the engine's process. When transformers loads a processor it copies the tokenizer several times, each time with all
    of vLLM's copies. So vLLM begins with one copy here.
    """
    from vllm.renderers import hf
    from vllm.renderers.base import BaseRenderer
    from vllm.tokenizers.hf import ThreadSafeHFTokenizerMixin

    make_pool = hf.maybe_make_thread_pool

    def warm_up(renderer: Any, processor: Any, *_: Any, **__: Any) -> None:
        processor.info.get_hf_processor()
        if isinstance(renderer.tokenizer, ThreadSafeHFTokenizerMixin):
            _, (original, _) = renderer.tokenizer.__reduce__()
            larger = make_pool(copy(original), renderer.model_config.renderer_num_workers + 1)
            renderer.tokenizer.__class__ = larger.__class__  # the copies belong to the class

    if not hasattr(BaseRenderer, "_warmup_mm_processor"):  # such a release would be left with a single copy
        raise AttributeError("BaseRenderer has no _warmup_mm_processor")
    BaseRenderer._warmup_mm_processor = warm_up
    hf.maybe_make_thread_pool = lambda tokenizer, *_: make_pool(tokenizer, 1)
