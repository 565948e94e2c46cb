"""The phases of vLLM's start, read from lines that its releases print."""

import pytest

from cosmos_batch.contract.metrics import ENGINE_START_PHASES
from cosmos_batch.engines.vllm.startup import reports_phase, start_phases

# As seen: 0.32 on the CPU, which compiles nothing.
ON_CPU = """\
   0.00 s  starting vllm 0.32.0+cpu: 8 requests at once, context of 2,048 tokens
   4.10 s  (APIServer pid=18642) INFO 11-21 07:58:34 [api_utils.py:347]    version 0.32.0
  30.00 s  (APIServer pid=18642) INFO 11-21 07:59:07 [model.py:733] Resolved architecture: Qwen3VL
  52.50 s  (EngineCore pid=19836) INFO 11-21 07:59:26 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with
  54.00 s  (EngineCore pid=19836) INFO 11-21 07:59:28 [base_loader.py:82] Initializing model took 0.168475 seconds
  54.10 s  (EngineCore pid=19836) INFO 11-21 07:59:28 [default_loader.py:501] Loading weights took 0.25 seconds
  56.00 s  (EngineCore pid=19836) INFO 11-21 07:59:30 [core.py:402] init engine (profile, create kv cache,\
 warmup model) took 0.11 s
  57.00 s  INFO:     Application startup complete."""

# 0.26 and later on a GPU, a model shared by two.
ON_GPUS = """\
  24.50 s  (EngineCore pid=2) INFO 06-03 00:00:08 [core.py:112] Initializing a V1 LLM engine (v0.26.0) with
  27.00 s  (Worker_TP0 pid=3) INFO 06-03 00:00:20 [default_loader.py:397] Loading weights took 0.80 seconds
  27.10 s  (Worker_TP1 pid=4) INFO 06-03 00:00:20 [default_loader.py:397] Loading weights took 0.90 seconds
  27.50 s  (Worker_TP0 pid=3) INFO 06-03 00:00:21 [gpu_model_runner.py:5132] Model loading took 4.52 GiB memory and\
 1.250000 seconds
  69.00 s  (Worker_TP0 pid=3) INFO 06-03 00:00:46 [monitor.py:53] torch.compile and initial profiling/warmup run\
 together took 41.00 s in total
  76.00 s  (Worker_TP1 pid=4) INFO 06-03 00:01:00 [gpu_model_runner.py:6456] Graph capturing finished in 6 secs, took\
 1.17 GiB
 190.00 s  (EngineCore pid=2) INFO 06-03 00:01:02 [core.py:302] init engine (profile, create kv cache,\
 warmup model) took 168.00 s (compilation: 42.00 s — language_model: 40.00 s, encoder: 2.00 s)"""

# 0.19 and before.
OLD = """\
   9.00 s  (EngineCore_DP0 pid=1) INFO 02-16 14:53:26 [core.py:58] Initializing a V1 LLM engine (v0.19.1) with
  20.00 s  (EngineCore_DP0 pid=1) INFO 02-16 14:53:26 [monitor.py:34] torch.compile takes 9.85 s in total
  25.00 s  (EngineCore_DP0 pid=1) INFO 02-16 14:53:31 [gpu_model_runner.py:5063] Graph capturing finished in 5 secs
  26.00 s  (EngineCore_DP0 pid=1) INFO 02-16 14:53:31 [core.py:272] init engine (profile, create kv cache,\
 warmup model) took 20.24 seconds"""


@pytest.mark.parametrize(
    ("text", "total", "expected"),
    [
        (ON_CPU, 57.5, {"imports": 52.5, "weights": 0.25, "compile": 0, "graphs": 0, "warmup": 0.11}),
        (ON_GPUS, 195, {"imports": 24.5, "weights": 1.25, "compile": 42, "graphs": 6, "warmup": 120}),
        (OLD, 30, {"imports": 9, "weights": 0, "compile": 9.85, "graphs": 5, "warmup": 5.39}),
        ("", 40, dict.fromkeys(("imports", "weights", "compile", "graphs", "warmup"), 0)),
        ("Initializing a V1 LLM engine\ninit engine () took soon", 40, {"imports": 0, "warmup": 0}),
    ],
    ids=["cpu", "gpus", "old", "silent", "strange"],
)
def test_the_phases_of_each_release_are_read(text: str, total: float, expected: dict[str, float]) -> None:
    phases = start_phases(text.split("\n"), total)
    assert phases == pytest.approx(phases | expected)
    assert sum(phases.values()) == pytest.approx(total)


def test_rest_is_never_negative() -> None:
    """Phases of several processes overlap, so their sum may exceed the total."""
    assert start_phases(ON_GPUS.split("\n"), 100)["rest"] == 0


def test_phases_are_those_of_the_metric() -> None:
    assert tuple(start_phases([], 1)) == ENGINE_START_PHASES


def test_lines_that_report_a_phase_are_recognized() -> None:
    """They are kept even where eight GPUs print more lines than a start keeps."""
    assert [reports_phase(line) for line in ON_CPU.split("\n")] == [False, False, False, True, False, True, True, False]
