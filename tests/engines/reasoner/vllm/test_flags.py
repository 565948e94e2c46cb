"""The options and variables for a GPU, which no test runs, are known to the installed vLLM."""

import json
import subprocess
import sys
from pathlib import Path

from cosmos_batch.engines.reasoner.vllm.command import VllmPlan, serve_command, serve_environment
from tests.support.real_vllm import needs_vllm

pytestmark = needs_vllm

# Parse arguments as `vllm serve` does. Reading its `--help=all` instead would take half a minute.
READ = """
import json, sys
from vllm import envs
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
make_arg_parser(FlexibleArgumentParser()).parse_args(json.loads(sys.argv[1]))
print("\\n" + json.dumps(list(envs.environment_variables)))
"""


def test_vllm_knows_every_option_and_variable(checkpoint_dir: Path, tmp_path: Path) -> None:
    plan = VllmPlan(context=32_768, sequences=256, gpus=4, fp8=True)
    command = serve_command(checkpoint_dir, plan, tmp_path, tmp_path)
    assert {"--tensor-parallel-size", "--quantization", "--watermark"} <= set(command)
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **serve_environment(0, None, tmp_path)}
    options = command[command.index("serve") + 1 :]
    read = [sys.executable, "-c", READ, json.dumps(options)]
    output = subprocess.run(read, env=variables, capture_output=True, text=True, timeout=300, check=True).stdout
    sent = {name for name in plan.environment(None, tmp_path) if name.startswith("VLLM_")}
    assert {"VLLM_WORKER_MULTIPROC_METHOD", "VLLM_ENABLE_STARTUP_PLAN"} <= sent
    assert sent <= set(json.loads(output.splitlines()[-1]))
