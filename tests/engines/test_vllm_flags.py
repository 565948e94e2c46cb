"""What vLLM's server is told on a GPU, which no test runs, is known to the vLLM that is installed."""

import subprocess
from pathlib import Path

from cosmos_batch.engines.reasoner.vllm.command import Plan, serve_command, serve_environment
from cosmos_batch.engines.serving.server import program_here
from tests.real_vllm import needs_vllm

pytestmark = needs_vllm


def test_every_flag_is_one_of_its_own(checkpoint_dir: Path, tmp_path: Path) -> None:
    command = serve_command(checkpoint_dir, Plan(context=32_768, sequences=256, gpus=4), tmp_path, tmp_path / "socket")
    told = {word for word in command if word.startswith("--")}
    shown = [program_here("vllm"), "serve", "--help=all"]
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **serve_environment(0, None, tmp_path / "socket")}
    known = subprocess.run(shown, env=variables, capture_output=True, text=True, timeout=300, check=True).stdout
    words = set(known.replace(",", " ").split())
    assert "--tensor-parallel-size" in told and told - words == set()
