"""The installed vLLM imports without garbage collection, and prepares in its warm-up what the first clip needs."""

import subprocess
import sys
from pathlib import Path

import pytest

from cosmos_batch.demo.checkpoint import build_random_checkpoint
from tests.support.real_vllm import needs_vllm

pytestmark = [needs_vllm, pytest.mark.slow]

_COLLECTED = """
import gc, runpy, sys
sys.argv = ["vllm", "--version"]
seen = []
def note(phase, info):
    if phase == "start" and "vllm" in sys.modules and not gc.get_freeze_count():
        seen.append(info)
gc.callbacks.append(note)
try:
    runpy.run_module("cosmos_batch.engines.reasoner.vllm.server_program", run_name="__main__")
except SystemExit as ended:
    assert not ended.code, ended.code
assert "vllm.entrypoints.cli.serve" in sys.modules
print("collections while importing:", len(seen))
print("left out of later ones:", gc.get_freeze_count() > 100_000)
print("collects again:", gc.isenabled())
"""


def printed_by(program: str, *arguments: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_program_of_the_server_imports_without_collecting_garbage() -> None:
    version, *noted = printed_by(_COLLECTED)
    assert version[0].isdigit(), "vLLM's own command line ran"
    assert noted == [
        "collections while importing: 0",
        "left out of later ones: True",
        "collects again: True",
    ]


def test_the_program_ends_with_the_status_of_vllm() -> None:
    patched = """
from unittest import mock
from cosmos_batch.engines.reasoner.vllm import server_program
with mock.patch("vllm.entrypoints.cli.main.main", lambda: 3):
    server_program.main()
"""
    assert subprocess.run([sys.executable, "-c", patched], capture_output=True, timeout=300).returncode == 3


_COPIES = """
import copy, sys, threading
from types import SimpleNamespace
from transformers import PreTrainedTokenizerBase, ProcessorMixin
from vllm.config import ModelConfig, VllmConfig
from vllm.renderers.registry import renderer_from_config
from vllm.tokenizers import hf as tokenizers
from cosmos_batch.engines.reasoner.vllm import plugin

WORKERS = 4
copies = []
tokenizers.copy = SimpleNamespace(copy=copy.copy, deepcopy=lambda one: copies.append(1) or copy.deepcopy(one))
plugin.register()
config = VllmConfig(model_config=ModelConfig(
    sys.argv[1], dtype="float32", mm_processor_cache_gb=0, renderer_num_workers=WORKERS
))
renderer = renderer_from_config(config)
print("before it is asked to warm up:", len(copies))

text = "A robot picks up a red cube."
before = renderer.tokenizer.encode(text)
info = renderer.mm_processor.info
loaded = []
load = ProcessorMixin.from_pretrained.__func__
ProcessorMixin.from_pretrained = classmethod(lambda *arguments, **named: loaded.append(1) or load(*arguments, **named))
renderer.warmup_mm()
print("a processor is loaded:", bool(loaded))
loaded.clear()
info.get_video_processor()
print("another one for the first clip:", bool(loaded))

copies.clear()
inside, done = threading.Barrier(WORKERS + 1), []
encode = PreTrainedTokenizerBase.encode
def waiting(self, *arguments, **named):
    inside.wait(60)
    return encode(self, *arguments, **named)
PreTrainedTokenizerBase.encode = waiting
threads = [threading.Thread(target=lambda: done.append(renderer.tokenizer.encode(text))) for _ in range(WORKERS + 1)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("answers of all threads at once:", len(done))
print("copies made for them:", len(copies))
print("the same tokens:", all(one == before for one in done))
"""


def test_copies_of_the_tokenizer_and_the_processor_are_made_in_the_warm_up(tmp_path: Path) -> None:
    assert printed_by(_COPIES, str(build_random_checkpoint(tmp_path)))[-6:] == [
        "before it is asked to warm up: 1",
        "a processor is loaded: True",
        "another one for the first clip: False",
        "answers of all threads at once: 5",
        "copies made for them: 0",
        "the same tokens: True",
    ]
