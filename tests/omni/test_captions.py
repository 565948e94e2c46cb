"""vLLM-Omni's own pipeline turns our requests into the right tokens, without its server and without weights."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.engines.generator.captions import captions_for, with_sequence_length
from cosmos_batch.engines.generator.inputs import Frames, PreparedGeneration
from cosmos_batch.engines.generator.vllm_omni.requests import image_body, video_form
from tests.engines.generator.argument_models.table import CONTROL, JSON_PROMPT, Case
from tests.support.caption_tokens import Ids, ids_of

SMALL = {"resolution": "256p", "aspectRatio": "16:9", "numFrames": 13}
TRANSFER = {"mode": "transfer", "framesPerChunk": 9, **SMALL}
ROWS = [[0.25] * 10] * 16
ACTIONS = {"resolution": "256p", "domainName": "umi", "viewPoint": "wrist_view"}
CASES = (
    Case("t2i", {"mode": "t2i"}),
    Case("t2i of JSON", {"mode": "t2i"}, prompt=JSON_PROMPT),
    Case("t2v", {"mode": "t2v", **SMALL}),
    Case("t2v of JSON", {"mode": "t2v", **SMALL}, prompt=JSON_PROMPT),
    Case("t2v of JSON with templates", {"mode": "t2v", "useDurationTemplate": True, **SMALL}, prompt=JSON_PROMPT),
    Case("t2v without templates", {"mode": "t2v", "useResolutionTemplate": False, "useDurationTemplate": False}),
    Case("t2v of an empty negative prompt", {"mode": "t2v", "negativePrompt": "", **SMALL}),
    Case("a long prompt", {"mode": "t2v", **SMALL}, prompt="A cube. " * 600),
    Case("i2v", SMALL, "image"),
    Case("v2v", SMALL, "video"),
    Case("transfer", {"controls": {"edge": CONTROL}, **TRANSFER}),
    Case("transfer of two, of JSON", {"controls": {"edge": CONTROL, "depth": CONTROL}, **TRANSFER}, prompt=JSON_PROMPT),
    Case("forward_dynamics", {"mode": "forward_dynamics", "action": ROWS, **ACTIONS}, "image"),
    Case("inverse_dynamics", {"mode": "inverse_dynamics", **ACTIONS}, "video"),
    Case("policy of JSON", {"mode": "policy", **ACTIONS}, "image", prompt=JSON_PROMPT),
)


@pytest.fixture(scope="module")
def tokenizer(checkpoint: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(checkpoint / "text_tokenizer")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_vllm_omni_reads_the_same_tokens_as_diffusers(case: Case, tokenizer: Any, tmp_path: Path) -> None:
    """The ids equal those of our captions, which `diffusers/test_captions.py` compares with those of Diffusers."""
    prepared = with_sequence_length(_prepared(case.generation()), lambda text: len(tokenizer(text).input_ids))
    captions = captions_for(prepared.generation, prepared.size)
    assert _read_by_vllm_omni(tokenizer, prepared, tmp_path) == ids_of(tokenizer, captions)


def _prepared(generation: Generation) -> PreparedGeneration:
    assert generation.size is not None
    black: Frames = [np.zeros((generation.size.height, generation.size.width, 3), np.uint8)]
    if generation.transfer:
        assert generation.num_frames is not None
        return PreparedGeneration(
            generation,
            generation.size,
            controls=dict.fromkeys(generation.transfer.controls, black * generation.num_frames),
        )
    return PreparedGeneration(generation, generation.size, [] if generation.mode in ("t2i", "t2v") else black * 5)


def _read_by_vllm_omni(tokenizer: Any, prepared: PreparedGeneration, folder: Path) -> tuple[Ids, Ids]:
    """Return the token ids of our request in vLLM-Omni's pipeline, which is stopped before it encodes pictures."""
    import torch
    from vllm_omni.diffusion.models.cosmos3.pipeline_cosmos3 import Cosmos3OmniDiffusersPipeline
    from vllm_omni.inputs.data import OmniDiffusionSamplingParams

    read: list[tuple[Ids, Ids]] = []

    class Reader(Cosmos3OmniDiffusersPipeline):  # type: ignore[misc]
        """The pipeline without weights, which stops after tokenizing the prompts."""

        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.tokenizer, self.device = tokenizer, torch.device("cpu")
            self.transformer = SimpleNamespace(action_gen=True, sound_gen=True)
            self.is_distilled_model = self.is_edge_model = False
            self.vae_scale_factor_temporal, self._engine_init_flow_shift = 4, 10.0

        def _set_flow_shift(self, target_shift: float) -> None:
            assert target_shift == prepared.generation.flow_shift

        def _format_and_tokenize_prompts(self, *arguments: Any, **options: Any) -> Any:
            prompt, _, negative, _ = super()._format_and_tokenize_prompts(*arguments, **options)
            read.append((prompt[0].tolist(), negative[0].tolist()))
            raise StopIteration

    generation = prepared.generation
    request: dict[str, Any]
    if generation.is_video:
        request = dict(video_form(prepared, "checks", folder, True, lambda: None).fields)
        extra = json.loads(request["extra_params"])
    else:
        request = image_body(prepared, "checks")
        extra = request["extra_params"]
    sampling = OmniDiffusionSamplingParams(
        extra_args={"flow_shift": float(request["flow_shift"]), **extra},
        height=prepared.size.height,
        width=prepared.size.width,
        num_frames=int(request.get("num_frames", 1)),
        fps=float(request.get("fps", 24)),
        num_inference_steps=int(request["num_inference_steps"]),
        guidance_scale=float(request["guidance_scale"]),
        guidance_scale_provided=True,
        seed=int(request["seed"]),
    )
    pictures = torch.zeros(1, 3, 5, prepared.size.height, prepared.size.width)
    seen = {}
    if generation.mode in ("v2v", "inverse_dynamics"):
        seen["preprocessed_video"] = pictures
    elif generation.mode not in ("t2i", "t2v", "transfer"):
        seen["preprocessed_image"] = pictures[:, :, 0]
    prompt = {
        "prompt": request["prompt"],
        "negative_prompt": request["negative_prompt"],
        "modalities": ["video" if generation.is_video else "image"],
        "additional_information": seen,
    }
    with pytest.raises(StopIteration):
        Reader().forward(SimpleNamespace(prompts=[prompt], sampling_params=sampling, request_id="one"))
    return read[0]
