"""Passes the patches of our clips through vLLM's processor, which would compute them again with transformers' one.

vLLM prepares the media of all requests in one thread, and an H100 waits for it: that thread cuts frames into patches,
tokenizes a dummy prompt, and copies. Here the threads that read the clips cut them, and its own thread only adds the
sizes and times. It uses a seam that vLLM provides: a model's processor can be registered anew. Normalizing is left to
the GPU, which is vLLM's own default (`mm_device_do_normalize`).
"""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from cosmos_batch.engines.reasoner.vllm.clip_patches import PatchSizes, cut_patches

_OF_PROCESSOR = ("_apply_hf_processor_main", "_get_hf_mm_inputs")
_OF_FACTS = ("_get_video_second_idx", "_get_vision_info", "get_video_processor")
"""The methods of vLLM's classes that are overridden or called."""

_sizes: PatchSizes | None = None  # those of the model that this process serves, if its processor takes patches


class ReadyMetadata(dict[str, Any]):
    """The metadata of a clip, which carries its patches past all code that does not know them.

    A copy of it is a dictionary without patches, from which vLLM computes them.
    """

    patches: np.ndarray


def with_patches(frames: np.ndarray, metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata with the clip's patches, if the model that is served here takes them."""
    if _sizes is None or not _sizes.holds_whole_tokens(frames):
        return metadata
    ready = ReadyMetadata(metadata)
    ready.patches = cut_patches(frames, _sizes)
    return ready


def served_models() -> list[tuple[Any, Any]]:
    """Return the classes of vLLM's models that take ready patches, each with the class of its processor's facts.

    Raises ImportError or AttributeError where a release has moved one, or has no Cosmos 3.
    """
    from vllm.model_executor.models import cosmos3, qwen3_vl

    return [
        (qwen3_vl.Qwen3VLForConditionalGeneration, qwen3_vl.Qwen3VLProcessingInfo),
        (cosmos3.Cosmos3ForConditionalGeneration, cosmos3.Cosmos3ProcessingInfo),
    ]


def register() -> None:
    """Have vLLM's Qwen3-VL and Cosmos 3 models prepare media with a processor that takes ready patches.

    Raises ImportError or AttributeError where a release has moved a class or method that this uses.
    """
    import torch
    from transformers.feature_extraction_utils import BatchFeature
    from vllm.model_executor.models import qwen3_vl
    from vllm.multimodal import MULTIMODAL_REGISTRY

    class ReadyClipProcessor(qwen3_vl.Qwen3VLMultiModalProcessor):  # type: ignore[misc]  # vLLM is not typed here
        """vLLM's processor, except for requests whose media are clips with ready patches."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            vision = self.info.get_hf_config().vision_config
            self._patches = PatchSizes(vision.patch_size, vision.spatial_merge_size, vision.temporal_patch_size)
            global _sizes  # the function that reads a clip has no access to a processor
            _sizes = self._patches

        def _apply_hf_processor_main(self, mm_items: Any, hf_kwargs: Mapping[str, object]) -> Any:
            data, _, passed_on = self._get_hf_mm_inputs(mm_items, hf_kwargs)
            clips = data.get("videos", [])
            if passed_on or set(data) - {"text"} != {"videos"} or not all(self._is_ready(*clip) for clip in clips):
                return super()._apply_hf_processor_main(mm_items, hf_kwargs)
            patches = [torch.from_numpy(metadata.patches) for _, metadata in clips]
            return BatchFeature(
                {
                    "pixel_values_videos": patches[0] if len(patches) == 1 else torch.cat(patches),
                    "video_grid_thw": torch.tensor([self._patches.grid(frames) for frames, _ in clips]),
                    "timestamps": [self.info._get_video_second_idx(metadata) for _, metadata in clips],
                }
            )

        def _is_ready(self, frames: Any, metadata: dict[str, Any]) -> bool:
            """Return whether vLLM would compute the very same patches: of frames that it neither scales nor drops."""
            multimodal = self.info.ctx.get_mm_config()
            if not isinstance(metadata, ReadyMetadata) or multimodal.is_multimodal_pruning_enabled():
                return False
            if not multimodal.mm_device_do_normalize:
                return False
            count, height, width, _ = frames.shape
            size, _ = self.info._get_vision_info(
                image_width=width,
                image_height=height,
                num_frames=count,
                image_processor=self.info.get_video_processor(),
                mm_kwargs={},
            )
            return (size.height, size.width) == (height, width)

    builder, models = qwen3_vl.Qwen3VLDummyInputsBuilder, served_models()
    for names, classes in (
        (_OF_PROCESSOR, [qwen3_vl.Qwen3VLMultiModalProcessor]),
        (_OF_FACTS, [info for _, info in models]),
    ):
        for name, one in product(names, classes):
            getattr(one, name)
    for model, info in models:
        MULTIMODAL_REGISTRY.register_processor(ReadyClipProcessor, info=info, dummy_inputs=builder)(model)
