"""Files in the form of NVIDIA's own: structured prompts, samples of Cosmos Framework, actions, a reasoner's prompts."""

import json
from pathlib import Path
from typing import Any

from tests.support import media_files

STRUCTURED_PROMPT: dict[str, Any] = {
    "subjects": [{"description": "A red car", "action": "Driving into a wall"}],
    "background_setting": "An empty street",
    "lighting": {"conditions": "Overcast"},
    "cinematography": {"camera_motion": "Static"},
    "style_medium": "Live-action video",
    "temporal_caption": "The car drives into the wall.",
    "resolution": {"H": 720, "W": 1280},
    "aspect_ratio": "16,9",
    "duration": "7s",
    "fps": 24,
}
NEGATIVE_PROMPT = {**STRUCTURED_PROMPT, "subjects": [{"description": "Blurry shapes"}]}

# As the samples of NVIDIA's cookbook on transfer, with paths from the folder of the sample.
TRANSFER_SAMPLE: dict[str, Any] = {
    "name": "transfer_edge",
    "model_mode": "video2video",
    "resolution": "720",
    "aspect_ratio": "16,9",
    "num_frames": 121,
    "fps": 30,
    "shift": 10.0,
    "num_steps": 50,
    "seed": 2026,
    "num_video_frames_per_chunk": 121,
    "num_conditional_frames": 1,
    "num_first_chunk_conditional_frames": 0,
    "share_vision_temporal_positions": True,
    "negative_metadata_mode": "none",
    "negative_prompt_keep_metadata": False,
    "guidance": 3.0,
    "control_guidance": 1.5,
    "negative_prompt_file": "../assets/negative_prompt.json",
    "prompt_path": "../assets/edge/prompt.json",
    "edge": {"control_path": "../assets/edge/control_edge.mp4", "preset_edge_threshold": "medium"},
    "emphasize_control_in_prompt": False,
}

QUESTION_YAML = """# A question about the next step of a robot.
system_prompt: |
  You are a helpful video analyzer.
user_prompt: |
  What can be the next immediate action?
"""


def structured_prompt(folder: Path) -> Path:
    """Write a structured prompt alone, indented as NVIDIA's are."""
    path = folder / "car_colliding.json"
    path.write_text(json.dumps(STRUCTURED_PROMPT, indent=2))
    return path


def transfer_sample(folder: Path) -> Path:
    """Write the sample of a transfer, with its prompts and its control video in a folder beside its own."""
    (folder / "specs").mkdir()
    (folder / "assets" / "edge").mkdir(parents=True)
    (folder / "assets" / "negative_prompt.json").write_text(json.dumps(NEGATIVE_PROMPT))
    (folder / "assets" / "edge" / "prompt.json").write_text(json.dumps(STRUCTURED_PROMPT))
    media_files.video(folder / "assets" / "edge" / "control_edge.mp4", frames=121, width=64, height=48)
    path = folder / "specs" / "edge.json"
    path.write_text(json.dumps(TRANSFER_SAMPLE))
    return path


def actions(folder: Path, rows: int, width: int) -> Path:
    """Write an action file: rows of numbers."""
    path = folder / "umi.json"
    path.write_text(json.dumps([[0.5] * width] * rows))
    return path


def question(folder: Path) -> Path:
    """Write a reasoner's prompts as YAML."""
    path = folder / "embodied_reasoning.yaml"
    path.write_text(QUESTION_YAML)
    return path
