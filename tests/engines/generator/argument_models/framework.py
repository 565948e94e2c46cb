"""What we send to Cosmos Framework for the table, and samples that are wrong: what it said is in `framework.json`."""

import json
from pathlib import Path
from typing import Any

from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.engines.generator.cosmos_framework.samples import SampleFiles, sample_for
from cosmos_batch.engines.reasoner.cosmos_framework import REVISION
from cosmos_batch.planning.generation.prompts import nvidia_negative_prompt
from tests.engines.generator.argument_models.table import NEGATIVE, Case, cases

REPOSITORY, COMMIT = "NVIDIA/cosmos-framework", REVISION
CLASSES = "OmniSampleOverrides and OmniSampleArgs"
# What the argument model imports, without what only inference does.
PACKAGES = (
    *("attrs", "boto3", "cattrs", "hydra-core", "imageio", "iopath", "loguru", "multi-storage-client", "numpy"),
    *("nvidia-ml-py", "omegaconf", "pandas", "pillow", "pydantic", "pyyaml", "termcolor", "torch", "transformers<5"),
    *("tyro", "typing-extensions", "wandb"),
)
RECORD = Path(__file__).with_name("framework.json")
ENGINE = "cosmos-framework"
GIVEN = Path("given")  # of files that exist where the samples are checked; nothing looks into them
MODEL_CONFIGS = {"cosmos3-nano": "Cosmos3-Nano"}  # of the framework's own; of the others, Super's


def sent() -> dict[str, dict[str, Any]]:
    """Samples by the name of their case."""
    return {case.name: _sample(case, asked) for case, asked in cases(ENGINE)}


def question(name: str, sample: dict[str, Any]) -> list[Any]:
    """A sample with the framework's configuration of the model that it is for."""
    pipeline = next((case.pipeline for case, _ in cases(ENGINE) if case.name == name), "cosmos3-nano")
    return [sample, MODEL_CONFIGS.get(pipeline, "Cosmos3-Super")]


def spoiled() -> dict[str, dict[str, Any]]:
    """Samples that are none, each wrong in one thing that our contract keeps from it."""
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


def _sample(case: Case, asked: Generation) -> dict[str, Any]:
    assert asked.size is not None, case.name
    vision = None
    if case.medium and not asked.transfer:
        moving = asked.conditioning or asked.mode == "inverse_dynamics"
        vision = GIVEN / ("given.mp4" if moving else "given.png")
    hints = asked.transfer.controls if asked.transfer else {}
    given = SampleFiles(
        GIVEN / "defaults.json",
        vision,
        {hint: GIVEN / f"given_{hint}.mp4" for hint in hints},
        GIVEN / "actions.json" if asked.mode == "forward_dynamics" else None,
    )
    sample: dict[str, Any] = json.loads(json.dumps(sample_for(asked, asked.size, given)))
    sample["negative_prompt"] = sample["negative_prompt"].replace(nvidia_negative_prompt(), NEGATIVE)
    return sample
