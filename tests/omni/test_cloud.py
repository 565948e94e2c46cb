"""The real server in the whole system: from the command line through the local cloud and its worker to the files."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.generation.document import GeneratorDocument
from cosmos_batch.local.runtime import CONTAINER_PROGRAMS
from cosmos_batch.media import WantedVideo, check_video, exact_rate

ROOT = Path(__file__).resolve().parents[2]
FEW = ("--width", "64", "--height", "48", "--num-frames", "9", "--steps", "2", "--sound", "--negative-prompt", "Blur.")


@pytest.mark.timeout(900)
def test_cloud_with_the_real_server_turns_an_image_into_a_video(
    checkpoint: Path, picture: Path, tmp_path: Path
) -> None:
    """The cloud runs in the project's environment, with which vLLM-Omni's conflicts; its worker runs in this one."""
    nano: dict[str, Any] = {"enabled": True, "engine": "vllm-omni", "guardrails": False, "model": str(checkpoint)}
    models = {"useNvidiaCosmos3": {"enabled": True, "modelsOmni": {"nano16B": nano}}}
    (tmp_path / "config.json").write_text(json.dumps({"app": {"pipelines": models}}))
    variables = {
        **os.environ,
        "COSMOS_BATCH_CONFIG": str(tmp_path / "config.json"),
        "COSMOS_BATCH_HOME": str(tmp_path / "home"),
        CONTAINER_PROGRAMS: str(Path(sys.executable).parent),
    }
    command = [
        str(ROOT / ".venv" / "bin" / "cosmos-batch"),
        "generate",
        str(picture),
        "--prompt",
        "A cube falls.",
        *FEW,
    ]
    ended = subprocess.run(
        [*command, "--output", f"{tmp_path}/made/"], env=variables, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    *_, last = ended.stdout.splitlines()
    document = GeneratorDocument.model_validate_json(Path(last).read_text())
    assert document.engine.startswith("vllm-omni 0.30") and document.generation.mode == "i2v"
    assert document.input is not None and document.input.path == str(picture)
    assert {one.role for one in document.files} == {"video", "preview"}
    video = next(Path(last).with_name(one.file) for one in document.files if one.role == "video")
    check_video(video, WantedVideo(64, 48, 9, exact_rate(24.0), sound=True))
