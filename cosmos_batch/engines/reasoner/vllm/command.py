"""How `vllm serve` is started for a checkpoint on what a worker finds."""

import json
import tempfile
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx2
from packaging.version import Version

from cosmos_batch.engines.compile_cache import cache_variables
from cosmos_batch.engines.gpus import free_share
from cosmos_batch.engines.reasoner.vllm.plugin import VIDEO_BACKEND
from cosmos_batch.engines.serving.server import Server, program_here
from cosmos_batch.engines.serving.watchdog import counters

MODEL = "cosmos"  # the name that requests ask for
_MEMORY_SHARE = 0.92
_CONTEXT_SHARE = 0.03  # of CUDA itself, once a process uses the GPU
# Tokens of one step, as vLLM takes by itself where it is no server. A server takes the least on a GPU with less memory
# than an H100's, which is a part of one clip.
_STEP_TOKENS, _LEAST_STEP_TOKENS = 16_384, 2_048
# Threads that make tensors of frames. With one, vLLM's default, an H100 waits for it most of the time.
_RENDERERS = 8
# The reasoner of Cosmos 3 is vLLM's own since then; before, NVIDIA's `vllm-cosmos3` had it, by another name.
_IN_TREE_SINCE = (0, 23)
_OUR_PLUGIN, _THEIR_PLUGIN = "cosmos_batch", "register_cosmos3"  # entry points
# Of transformers: its processor replaces a video's own token alone, and no more the markers around it.
_LEFT_SINCE = (5, 10)
_VIDEO = "<|video_pad|>"
_AROUND_A_VIDEO = f"<|vision_start|>{_VIDEO}<|vision_end|>"


@dataclass(frozen=True)
class Plan:
    """What one server may use: the `ServerPlan` of vLLM.

    Attributes
    ----------
    context
        Tokens of prompt and answer together.
    sequences
        Requests that it works on at once.
    gpus
        GPUs that share the weights; 0 for the CPU.
    step_tokens
        Tokens of all requests that it computes at once.
    memory
        Share of each GPU's memory that it takes.
    """

    context: int
    sequences: int
    gpus: int
    step_tokens: int = _STEP_TOKENS
    memory: float = _MEMORY_SHARE

    program = "vLLM"
    last_words = None
    less_memory = "Choose an instance type with more GPU memory, or a smaller model; for a single file, lower fps."

    def __str__(self) -> str:
        return f"{self.sequences} requests at once, context of {self.context:,} tokens"

    def command(self, folder: Path, socket: Path) -> list[str]:
        """The argument list; clips lie in the system's temporary folder."""
        return serve_command(folder, self, Path(tempfile.gettempdir()), socket)

    def environment(self, caches: Path | None, socket: Path) -> dict[str, str]:
        """Variables beside our own."""
        return serve_environment(self.gpus, caches, socket)

    def sign_of_life(self, _server: Server, client: httpx2.Client) -> str | None:
        """What it counts."""
        return counters(client)

    def lessened(self) -> "Plan":
        """One whose work takes much less memory; the weights take what they take."""
        step_tokens = max(_LEAST_STEP_TOKENS, self.step_tokens // 4)
        return replace(self, sequences=max(1, self.sequences // 4), step_tokens=step_tokens)

    def measured(self) -> "Plan":
        """One for the memory that is free now."""
        return replace(self, memory=memory_share(free_share()))


def serve_command(folder: Path, plan: Plan, media_root: Path, socket: Path) -> list[str]:
    """The argument list."""
    command = [program_here("vllm"), "serve", str(folder), "--uds", str(socket), "--served-model-name", MODEL]
    command += ["--allowed-local-media-path", str(media_root)]
    # Our clips, every frame of them: they are sampled already.
    command += ["--media-io-kwargs", json.dumps({"video": {"video_backend": VIDEO_BACKEND, "num_frames": -1}})]
    command += ["--max-model-len", str(plan.context), "--max-num-seqs", str(plan.sequences)]
    command += ["--generation-config", "vllm"]  # sampling is what we say, and not what a checkpoint says
    # Its default backend ran away in whitespace, and xgrammar put control characters into strings.
    command += ["--structured-outputs-config", json.dumps({"backend": "guidance", "disable_any_whitespace": True})]
    # Not what it does by itself on NFS: see `read_ahead`.
    command += ["--safetensors-load-strategy", "lazy"]
    # No file is seen twice.
    command += ["--mm-processor-cache-gb", "0", "--disable-uvicorn-access-log"]
    if (overrides := _overrides(folder)) is not None:
        command += ["--hf-overrides", json.dumps(overrides)]
    if (template := chat_template(folder)) is not None:
        path = socket.with_name("chat_template.jinja")
        path.write_text(template, encoding="utf-8")
        command += ["--chat-template", str(path)]
    return command + (_on_gpus(plan) if plan.gpus else _on_cpu())


def serve_environment(gpus: int, caches: Path | None, socket: Path) -> dict[str, str]:
    """Variables beside our own. Nothing is asked of the network, and nobody is told of its use."""
    variables = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_PLUGINS": _OUR_PLUGIN if _knows_cosmos3() else f"{_OUR_PLUGIN},{_THEIR_PLUGIN}",
        "VLLM_USE_DEEP_GEMM": "0",  # our images do not have it
        # It takes no seeds, which every request of ours has, and compiling it takes longer than all else.
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        # Of its processes' sockets, whose paths the kernel limits to 107 bytes; a worker's temporary folder is longer.
        "VLLM_RPC_BASE_PATH": str(socket.parent),
    }
    if gpus:
        # Its core begins with what the server has imported; vllm's command line would have it import all of it anew.
        variables["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"
    else:
        # With two OpenMP threads times swing twentyfold on few cores; one process is one import less.
        variables |= {"OMP_NUM_THREADS": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    return variables if caches is None else {**variables, **cache_variables(caches)}


def within(folder: Path, context: int | None) -> int:
    """The context that is asked for, or the checkpoint's own where that is smaller."""
    config = _config(folder)
    own: int = config.get("text_config", config)["max_position_embeddings"]
    return own if context is None else min(own, context)


def uneven(folder: Path, gpus: int) -> str | None:
    """Why so many GPUs cannot share a checkpoint, if so: each takes as many attention heads as the others."""
    config = _config(folder)
    heads: int = config.get("text_config", config)["num_attention_heads"]
    if gpus and heads % gpus:
        return f"{folder.name} has {heads} attention heads, which {gpus} GPUs cannot share evenly."
    return None


def memory_share(free: float) -> float:
    """What a server takes of a GPU of which so much is free: vLLM's own default, or less beside a desktop's windows."""
    return round(min(_MEMORY_SHARE, free - _CONTEXT_SHARE), 2)


def _on_gpus(plan: Plan) -> list[str]:
    shared = ["--tensor-parallel-size", str(plan.gpus), "--mm-encoder-tp-mode", "data", "--async-scheduling"]
    steps = ["--max-num-batched-tokens", str(plan.step_tokens), "--renderer-num-workers", str(_RENDERERS)]
    return [*shared, *steps, "--gpu-memory-utilization", str(plan.memory)]


def _on_cpu() -> list[str]:
    """For tests and the newcomer: a tiny model at once, and no compilation."""
    return ["--enforce-eager", "--kv-cache-memory-bytes", str(64 << 20), "--dtype", "float32"]


def _overrides(folder: Path) -> dict[str, object] | None:
    """The architecture by the name that the installed vLLM knows; None where the checkpoint says it itself."""
    config = _config(folder)
    if config.get("model_type") != "cosmos3_omni":
        return None
    name = "Cosmos3ForConditionalGeneration" if _knows_cosmos3() else "Cosmos3ReasonerForConditionalGeneration"
    return {"architectures": [name]}


def _knows_cosmos3() -> bool:
    return _release("vllm") >= _IN_TREE_SINCE


def _release(package: str) -> tuple[int, ...]:
    """Major and minor, also of one under development."""
    return Version(version(package)).release[:2]


def chat_template(folder: Path) -> str | None:
    """The checkpoint's chat template without the markers around a whole video; None where it is right as it is.

    Each pair of frames has markers of its own. Those around the whole were dropped by the processors that the models
    were trained with; newer ones leave them there, and vLLM does as they do.
    """
    if _release("transformers") < _LEFT_SINCE:
        return None
    template = _written_template(folder)
    return template.replace(_AROUND_A_VIDEO, _VIDEO) if _AROUND_A_VIDEO in template else None


def _written_template(folder: Path) -> str:
    """As transformers looks for it; "" where there is none."""
    if (path := folder / "chat_template.jinja").is_file():
        return path.read_text(encoding="utf-8")
    for name in ("chat_template.json", "tokenizer_config.json"):
        if (path := folder / name).is_file():
            found = json.loads(path.read_text(encoding="utf-8")).get("chat_template")
            if isinstance(found, str):
                return found
    return ""


def _config(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return config
