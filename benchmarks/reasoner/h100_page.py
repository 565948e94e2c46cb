"""Write the part of the reasoner's section about H100."""

from typing import Any

from benchmarks.kernels_page import TERABYTES_PER_SECOND, terabytes_read
from benchmarks.paragraphs import filled
from benchmarks.reasoner import large_page
from benchmarks.reasoner.gpu_results import busy_seconds
from benchmarks.results import stored
from cosmos_batch.engines.reasoner.vllm.command import WATERMARK


def text(h200: dict[str, Any], h100: dict[str, Any], newest: dict[str, Any]) -> str:
    """Return the rates of three runs on H100, beside those of one on an H200."""
    return f"""{_in_16_bit(h200, h100, stored(large_page.EXACT))}

{_in_fp8(h100)}

{_newest(newest, h100)}"""


def _in_16_bit(h200: dict[str, Any], h100: dict[str, Any], earlier: dict[str, Any]) -> str:
    """Return the rates on an H100, also of an earlier run, and what memory and the compiled encoder do to them."""
    one, answers, load = h100["bf16"], h100["bf16"]["answers"], h100["bf16"]["loadWithoutCaches"]
    steady = one["steady"]
    before, now = (1000 * busy_seconds(step) / step["clips"] for step in (h200["bf16"]["steady"], steady))
    terabytes = terabytes_read(steady)
    slower = 1000 * (terabytes / TERABYTES_PER_SECOND["H100"] - terabytes / TERABYTES_PER_SECOND["H200"])
    return filled(
        f"Measured {h100['day']} on {h100['machine']}, with the versions and clips of the first table, with all jobs "
        f"prepared at once, and beside a benchmark of the host's other GPU: {one['ready 0']['perSecond']:.2f} clips "
        f"per second of {one['ready 0']['clips']}, {steady['perSecond']:.2f} in a steady state of "
        f"{steady['clips']:,}, in whose middle 70 % the GPU was busy for {steady['gpuSteady']['busy']:.1f} %. On "
        f"another machine with an H100, on {earlier['day']}, the steady state was "
        f"{earlier['bf16']['steady']['perSecond']:.2f}. {answers['sameAnswers']} of {answers['compared']} greedy "
        f"answers are the same with our patches and with vLLM's. The GPU was busy for {now:.1f} ms for each clip, on "
        f"an H200 at commit {h200['commit']} for {before:.1f} ms: without any wait it would answer {1000 / now:.1f} a "
        f"second. By NVIDIA's data sheets an H100 reads its memory at {TERABYTES_PER_SECOND['H100']} TB/s and an H200 "
        f"at {TERABYTES_PER_SECOND['H200']} TB/s, so reading the kept keys and values alone takes {slower:.0f} ms "
        "more for a clip. What the compiled encoder gains was not measured, because no run had both on one "
        f"machine. Loading took {load['seconds']:.0f} s without kept caches, {load['phases']['imports']:.0f} of them "
        "for imports.",
    )


def _in_fp8(h100: dict[str, Any]) -> str:
    """Return the rates with weights, keys and values in FP8 on an H100, and how far the answers agree."""
    one, steady, agreement = h100["fp8Cache"], h100["fp8Cache"]["steady"], h100["fp8Cache"]["agreement"]
    busy = 1000 * busy_seconds(steady) / steady["clips"]
    return filled(
        f"With `fp8` and `fp8Cache`, in the same run: {one['ready 0']['perSecond']:.2f} clips per second of "
        f"{one['ready 0']['clips']}, {steady['perSecond']:.2f} in a steady state of {steady['clips']:,}, in whose "
        f"middle 70 % the GPU was busy for {steady['gpuSteady']['busy']:.1f} %. It was busy for {busy:.1f} ms for each "
        f"clip, so without any wait it would answer {1000 / busy:.1f} a second. {agreement['sameAnswers']} of "
        f"{agreement['compared']} greedy answers of 32 tokens are the same as in 16 bit. "
        f"{agreement['sameFirstToken']} first tokens are, and their log-probabilities differ by up to "
        f"{agreement['largestDifference']:.2f}. As with `fp8` alone, random weights make this say nothing of a trained "
        "model.",
    )


def _newest(newest: dict[str, Any], h100: dict[str, Any]) -> str:
    """Return the rates of the newest run, and how busy the GPU was beside that of the run before."""
    exact, in_fp8 = (newest[name]["steady"] for name in ("bf16", "fp8Cache"))
    before, in_fp8_before = (h100[name]["steady"] for name in ("bf16", "fp8Cache"))
    idle = large_page.busy_from(exact)
    return filled(
        f"With {WATERMARK:.0%} of the room kept free, measured {newest['day']} on {newest['machine']}, while one to "
        f"three of the host's other GPUs ran benchmarks: {exact['perSecond']:.2f} clips per second in a steady state "
        f"of 1,000 in 16-bit, {in_fp8['perSecond']:.2f} with `fp8` and `fp8Cache`. On the host before it was "
        f"{before['perSecond']:.2f} and {in_fp8_before['perSecond']:.2f}. In 16-bit the GPU was busy for "
        f"{exact['gpuSteady']['busy']:.1f} % of the middle 70 % (before: {before['gpuSteady']['busy']:.1f} %), in FP8 "
        f"for {in_fp8['gpuSteady']['busy']:.1f} % (before: {in_fp8_before['gpuSteady']['busy']:.1f} %); why it was "
        f"less is not known. In the first {idle} s after all clips were sent it was busy for less than half of each "
        "second, because [all jobs were prepared at once](#the-start-of-a-queue).",
    )
