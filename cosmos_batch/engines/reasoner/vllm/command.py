"""Build the options and the environment of `vllm serve` for a checkpoint and a machine."""

import json
import sys
import tempfile
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from packaging.version import Version

from cosmos_batch.engines.checkpoints import config_of, text_config
from cosmos_batch.engines.gpus import free_share
from cosmos_batch.engines.reasoner.vllm.plugin import VIDEO_BACKEND
from cosmos_batch.engines.serving.server import socket_in
from cosmos_batch.engines.serving.server_plan import ServerPlan
from cosmos_batch.engines.vllm.dialect import cache_variables

MODEL = "cosmos"  # the model's name in requests
# `-P` keeps the current folder out of the places where Python looks for modules, as it is with a script.
_PROGRAM = [sys.executable, "-P", "-m", "cosmos_batch.engines.reasoner.vllm.server_program"]
WATERMARK = 0.03
"""The share of the room for keys and values that is free when vLLM begins an answer, for the answers that grow.

Where an answer grows and no room is left, vLLM interrupts another one, and later computes again what the cache has lost
of its prompt and answer (`benchmarks/reasoner/preemptions.py`).
"""
_WATERMARK_SINCE = (0, 30)  # the oldest release that was found to have it; 0.19.1 has not
_MEMORY_SHARE = 0.92  # vLLM's default
_CONTEXT_SHARE = 0.03  # the share of a GPU's memory that CUDA's context takes in each process
# Used as a library, vLLM computes up to 16,384 tokens in a step. As a server on a GPU with less memory than an H100 its
# default is 2,048, which is only a part of one clip.
_STEP_TOKENS, _LEAST_STEP_TOKENS = 16_384, 2_048
# Threads that turn frames into tensors. With one, vLLM's default, an H100 waits for it most of the time.
_RENDERERS = 8
# vLLM supports the reasoner of Cosmos 3 since this release. For earlier ones, NVIDIA's plugin `vllm-cosmos3` adds it,
# by another name.
_COSMOS3_SINCE = (0, 23)
# CUDA graphs are captured for steps in which all requests are in the middle of their answers. By default vLLM also
# captures parts of steps with new prompts, of at most 512 tokens in all, and takes two to four seconds longer. While
# its scheduler, with our options, answered 1,000 clips, none was such a step (`benchmarks/reasoner/preemptions.py`).
_COMPILATION: dict[str, object] = {"cudagraph_mode": "FULL_DECODE_ONLY"}
# The vision encoder's layers are compiled like those of the language model; by default vLLM runs them as written. Not
# with several GPUs: each encodes other clips, so the first one compiles alone while the others wait for its clip. By
# vLLM's code, its compiler waits for all processes (`AllReduceFusionPass`) on Hopper and Blackwell where it finds
# CUDA's compiler. A server on two H200 that compiled the encoder, and had that compiler, did not answer. In our images
# vLLM finds none; whether the encoder can be compiled there was not tried.
_ENCODER_COMPILED: dict[str, object] = {"compile_mm_encoder": True}
_OUR_PLUGIN, _NVIDIA_PLUGIN = "cosmos_batch", "register_cosmos3"  # names of entry points
_MARKERS_KEPT_SINCE = (5, 10)  # release of transformers; see `chat_template`
_VIDEO = "<|video_pad|>"
_MARKED_VIDEO = f"<|vision_start|>{_VIDEO}<|vision_end|>"


@dataclass(frozen=True)
class VllmPlan(ServerPlan):
    """The settings with which one vLLM server is started.

    Attributes
    ----------
    context
        Tokens of prompt and answer together.
    sequences
        Requests that it works on at once.
    gpus
        GPUs that share the weights; 0 for the CPU.
    step_tokens
        Tokens of all requests that it computes in one step.
    memory
        Share of each GPU's memory that it reserves.
    fp8
        Whether it converts the weights to FP8 as it loads them.
    fp8_cache
        Whether it keeps the keys and values of the context in FP8.
    """

    context: int
    sequences: int
    gpus: int
    step_tokens: int = _STEP_TOKENS
    memory: float = _MEMORY_SHARE
    fp8: bool = False
    fp8_cache: bool = False

    program = "vLLM"
    less_memory = "Choose an instance type with more GPU memory, or a smaller model; for a single file, lower fps."

    def __str__(self) -> str:
        precision = ", weights in FP8" if self.fp8 else ""
        precision += ", keys and values in FP8" if self.fp8_cache else ""
        return f"{self.sequences} requests at once, context of {self.context:,} tokens{precision}"

    def command(self, checkpoint: Path, folder: Path) -> list[str]:
        """Return the argument list; clips are written to the system's temporary folder."""
        return serve_command(checkpoint, self, Path(tempfile.gettempdir()), folder)

    def environment(self, caches: Path | None, folder: Path) -> dict[str, str]:
        """Return environment variables beside our own.

        With what it compiles, vLLM keeps how much memory was left for keys and values, and does not measure it again
        where as much memory is free. It does not note for which share of memory that holds, so this is on for its
        default share alone.
        """
        variables = serve_environment(self.gpus, caches, folder)
        if self.gpus and self.memory == _MEMORY_SHARE:
            variables["VLLM_ENABLE_STARTUP_PLAN"] = "1"
        return variables

    def smaller(self) -> "VllmPlan":
        """Return a plan with a quarter of the requests and of the tokens in a step.

        The weights' memory stays the same.
        """
        step_tokens = max(_LEAST_STEP_TOKENS, self.step_tokens // 4)
        return replace(self, sequences=max(1, self.sequences // 4), step_tokens=step_tokens)

    def fitted_to_free_memory(self) -> "VllmPlan":
        """Return this plan with the share of memory that is free now."""
        return replace(self, memory=memory_share(free_share()))


def serve_command(checkpoint: Path, plan: VllmPlan, media_root: Path, folder: Path) -> list[str]:
    """Return the argument list of `vllm serve`.

    Parameters
    ----------
    media_root
        Folder below which requests may name files.
    folder
        The server's own, for its socket.
    """
    command = [*_PROGRAM, "serve", str(checkpoint), "--uds", str(socket_in(folder))]
    command += ["--served-model-name", MODEL, "--allowed-local-media-path", str(media_root)]
    # A clip that the server gets has exactly the frames that the model is to see, so the server samples none of them.
    command += ["--media-io-kwargs", json.dumps({"video": {"video_backend": VIDEO_BACKEND, "num_frames": -1}})]
    command += ["--max-model-len", str(plan.context), "--max-num-seqs", str(plan.sequences)]
    if _release("vllm") >= _WATERMARK_SINCE:
        command += ["--watermark", str(WATERMARK)]
    command += ["--generation-config", "vllm"]  # each request has its sampling parameters, not the checkpoint
    # vLLM's default backend produced endless whitespace, and xgrammar put control characters into strings.
    command += ["--structured-outputs-config", json.dumps({"backend": "guidance", "disable_any_whitespace": True})]
    # Without this vLLM reads files on NFS ahead, each in one stream, which is slower than our `read_ahead`.
    command += ["--safetensors-load-strategy", "lazy"]
    # The cache of processed media is off, because no file comes twice.
    command += ["--mm-processor-cache-gb", "0", "--disable-uvicorn-access-log"]
    if (overrides := _overrides(checkpoint)) is not None:
        command += ["--hf-overrides", json.dumps(overrides)]
    if (template := chat_template(checkpoint)) is not None:
        path = folder / "chat_template.jinja"
        path.write_text(template, encoding="utf-8")
        command += ["--chat-template", str(path)]
    return command + (_on_gpus(plan) if plan.gpus else _on_cpu())


def serve_environment(gpus: int, caches: Path | None, folder: Path) -> dict[str, str]:
    """Return environment variables beside our own. The server asks nothing of the network and reports no usage."""
    variables = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_PLUGINS": _OUR_PLUGIN if _knows_cosmos3() else f"{_OUR_PLUGIN},{_NVIDIA_PLUGIN}",
        "VLLM_USE_DEEP_GEMM": "0",  # our images do not have it
        # FlashInfer's sampler supports no seeds, which all our requests have, and takes longest of all to compile.
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        # Otherwise two processes, each of which imports PyTorch, compile helper programs of the kernels for packed
        # weights while the engine starts. Our models have no such weights.
        "HUMMING_DISABLE_PARALLEL_BUILD": "1",
        # Folder of the sockets between its processes. The kernel limits their paths to 107 bytes, and a worker's
        # temporary folder is longer.
        "VLLM_RPC_BASE_PATH": str(folder),
    }
    if gpus:
        # A forked engine core keeps the modules that the server has imported; a spawned one would import them again.
        variables["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"
    else:
        # With two OpenMP threads, times vary twentyfold on few cores. With the engine core in the server's own process,
        # vLLM is imported only once.
        variables |= {"OMP_NUM_THREADS": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    return variables if caches is None else {**variables, **cache_variables(caches)}


def uneven(checkpoint: Path, gpus: int) -> str | None:
    """Return why `gpus` GPUs cannot share a checkpoint's attention heads evenly; None if they can."""
    heads: int = text_config(checkpoint)["num_attention_heads"]
    if gpus and heads % gpus:
        return f"{checkpoint.name} has {heads} attention heads, which {gpus} GPUs cannot share evenly."
    return None


def memory_share(free: float) -> float:
    """Return the share of a GPU's memory that a server reserves if this share is free.

    It is vLLM's default, or less where other programs hold memory, such as a desktop's.
    """
    return round(min(_MEMORY_SHARE, free - _CONTEXT_SHARE), 2)


def _on_gpus(plan: VllmPlan) -> list[str]:
    parallel = ["--tensor-parallel-size", str(plan.gpus), "--mm-encoder-tp-mode", "data", "--async-scheduling"]
    steps = ["--max-num-batched-tokens", str(plan.step_tokens), "--renderer-num-workers", str(_RENDERERS)]
    # Releases after 0.19 have more ways to FP8. This name is in all, and means one scale for each tensor.
    quantization = ["--quantization", "fp8"] if plan.fp8 else []
    quantization += ["--kv-cache-dtype", "fp8"] if plan.fp8_cache else []
    compilation = _COMPILATION | _ENCODER_COMPILED if plan.gpus == 1 else _COMPILATION
    compiled = ["--compilation-config", json.dumps(compilation)]
    return [*parallel, *steps, *quantization, *compiled, "--gpu-memory-utilization", str(plan.memory)]


def _on_cpu() -> list[str]:
    """Return the options for a CPU, for tests and first steps: a tiny model starts soonest without compilation."""
    return ["--enforce-eager", "--kv-cache-memory-bytes", str(64 << 20), "--dtype", "float32"]


def _overrides(checkpoint: Path) -> dict[str, object] | None:
    """Return the architecture of a Cosmos 3 checkpoint by the name that the installed vLLM knows; None for others."""
    if config_of(checkpoint).get("model_type") != "cosmos3_omni":
        return None
    name = "Cosmos3ForConditionalGeneration" if _knows_cosmos3() else "Cosmos3ReasonerForConditionalGeneration"
    return {"architectures": [name]}


def _knows_cosmos3() -> bool:
    return _release("vllm") >= _COSMOS3_SINCE


def _release(package: str) -> tuple[int, ...]:
    """Return major and minor version of an installed package, which may be a development release."""
    return Version(version(package)).release[:2]


def chat_template(checkpoint: Path) -> str | None:
    """Return the checkpoint's chat template without the markers around a whole video; None if it needs no change.

    The models were trained with a processor that gave each pair of frames markers of its own and dropped those around
    the whole video. transformers keeps them since 5.10, and vLLM does as transformers does. For Cosmos3-Edge vLLM
    replaces the markers together with what they enclose, and fails without them.
    """
    if _release("transformers") < _MARKERS_KEPT_SINCE or config_of(checkpoint).get("model_type") == "cosmos3_edge":
        return None
    template = _checkpoint_template(checkpoint)
    return template.replace(_MARKED_VIDEO, _VIDEO) if _MARKED_VIDEO in template else None


def _checkpoint_template(checkpoint: Path) -> str:
    """Return the template where transformers looks for it; "" if there is none."""
    if (path := checkpoint / "chat_template.jinja").is_file():
        return path.read_text(encoding="utf-8")
    for name in ("chat_template.json", "tokenizer_config.json"):
        if (path := checkpoint / name).is_file():
            template = json.loads(path.read_text(encoding="utf-8")).get("chat_template")
            if isinstance(template, str):
                return template
    return ""
