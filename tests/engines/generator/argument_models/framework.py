"""Build our samples for Cosmos Framework for each case of the table, and wrong ones."""

import json
from pathlib import Path
from typing import Any

from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.engines.cosmos_framework import REVISION
from cosmos_batch.engines.generator.cosmos_framework.samples import SampleFiles, sample_for
from cosmos_batch.planning.generation.prompts import nvidia_negative_prompt
from tests.engines.generator.argument_models.table import NEGATIVE, Case, cases

REPOSITORY, COMMIT = "NVIDIA/cosmos-framework", REVISION
CLASSES = "OmniSampleOverrides and OmniSampleArgs"
# The packages that the argument model imports, without those that only inference imports.
PACKAGES = (
    *("attrs", "boto3", "cattrs", "hydra-core", "imageio", "iopath", "loguru", "multi-storage-client", "numpy"),
    *("nvidia-ml-py", "omegaconf", "pandas", "pillow", "pydantic", "pyyaml", "termcolor", "torch", "transformers<5"),
    *("tyro", "typing-extensions", "wandb"),
)
RECORD = Path(__file__).with_name("framework.json")
ENGINE = "cosmos-framework"
GIVEN = Path("given")  # folder of files that exist, empty, where the samples are checked
MODEL_CONFIGS = {
    "cosmos3-nano": "Cosmos3-Nano"
}  # names of the framework's model configurations; other pipelines use Super's


def sent() -> dict[str, dict[str, Any]]:
    """Return the samples by the names of their cases."""
    return {case.name: _sample(case, generation) for case, generation in cases(ENGINE)}


def question(name: str, sample: dict[str, Any]) -> list[Any]:
    """Return a sample with the name of the framework's configuration of its model."""
    pipeline = next((case.pipeline for case, _ in cases(ENGINE) if case.name == name), "cosmos3-nano")
    return [sample, MODEL_CONFIGS.get(pipeline, "Cosmos3-Super")]


def spoiled() -> dict[str, dict[str, Any]]:
    """Return invalid samples, each wrong in one thing that our own validation prevents."""
    all_sent = sent()
    video, forward = all_sent["t2v at its defaults"], all_sent["forward_dynamics av"]
    transfer = all_sent["transfer edge"]
    return {
        "guidance of 8": {**video, "guidance": 8.0},
        "guidance below 0": {**video, "guidance": -1.0},
        "no steps": {**video, "num_steps": 0},
        "no frames": {**video, "num_frames": 0},
        "a fractional rate": {**video, "fps": 29.97},
        "a rate of 0": {**video, "fps": 0},
        "width and height": {**video, "width": 832, "height": 480},
        "a field of ours": {**video, "flow_shift": 10.0},
        "a field of other engines": {**video, "true_cfg_scale": 4.0},
        "a tier that is none": {**video, "resolution": "360"},
        "a tier with its p": {**video, "resolution": "480p"},
        "an aspect ratio with a colon": {**video, "aspect_ratio": "16:9"},
        "policy by our name": {**all_sent["policy av"], "model_mode": "policy"},
        "transfer by our name": {**transfer, "model_mode": "transfer"},
        "an input that is not there": {**all_sent["i2v at its defaults"], "vision_path": str(GIVEN / "absent.png")},
        "an input that is an AVI": {**all_sent["v2v at its defaults"], "vision_path": str(GIVEN / "given.avi")},
        "forward dynamics without actions": {name: one for name, one in forward.items() if name != "action_path"},
        "control guidance of 11": {**transfer, "control_guidance": 11.0},
        "control guidance without a control": {**video, "control_guidance": 1.5},
        "a control without a video": {**transfer, "edge": {"weight": 1.0}},
        "a control that it does not know": {**transfer, "normals": transfer["edge"]},
        "a strength that is none": {**transfer, "edge": {**transfer["edge"], "preset_edge_threshold": "faint"}},
        "a sample of a prompt that is a number": {**video, "prompt": 7},
    }


def _sample(case: Case, generation: Generation) -> dict[str, Any]:
    assert generation.size is not None, case.name
    vision = None
    if case.medium and not generation.transfer:
        moving = generation.conditioning or generation.mode == "inverse_dynamics"
        vision = GIVEN / ("given.mp4" if moving else "given.png")
    hints = generation.transfer.controls if generation.transfer else {}
    inputs = SampleFiles(
        GIVEN / "defaults.json",
        vision,
        {hint: GIVEN / f"given_{hint}.mp4" for hint in hints},
        GIVEN / "actions.json" if generation.mode == "forward_dynamics" else None,
    )
    sample: dict[str, Any] = json.loads(json.dumps(sample_for(generation, generation.size, inputs)))
    sample["negative_prompt"] = sample["negative_prompt"].replace(nvidia_negative_prompt(), NEGATIVE)
    return sample
