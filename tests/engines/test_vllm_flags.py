"""What vLLM's server is told on a GPU, which no test runs, is known to the vLLM that is installed."""

import json
import subprocess
import sys
from pathlib import Path

from cosmos_batch.engines.reasoner.vllm.command import Plan, serve_command, serve_environment
from tests.real_vllm import needs_vllm

pytestmark = needs_vllm

# Of `vllm serve`; its `--help=all` takes half a minute to lay out.
OPTIONS = """
import json
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
options = [name for action in make_arg_parser(FlexibleArgumentParser())._actions for name in action.option_strings]
print("\\n" + json.dumps(options))
"""


def test_every_flag_is_one_of_its_own(checkpoint_dir: Path, tmp_path: Path) -> None:
    command = serve_command(checkpoint_dir, Plan(context=32_768, sequences=256, gpus=4), tmp_path, tmp_path / "socket")
    told = {word for word in command if word.startswith("--")}
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **serve_environment(0, None, tmp_path / "socket")}
    shown = [sys.executable, "-c", OPTIONS]
    said = subprocess.run(shown, env=variables, capture_output=True, text=True, timeout=300, check=True).stdout
    known = set(json.loads(said.splitlines()[-1]))
    assert "--tensor-parallel-size" in told and told - known == set()
