"""Write the section of `docs/benchmarks.md` about the reasoner with the vLLM that the images hold."""

import json
from pathlib import Path
from typing import Any

from benchmarks import kernels_page
from benchmarks.kernels_page import TERABYTES_PER_SECOND, terabytes_read
from benchmarks.paragraphs import filled
from benchmarks.reasoner import gpu_decoding
from benchmarks.reasoner.preemptions import BLOCK, BLOCKS
from benchmarks.results import FOLDER, kept, table
from cosmos_batch.engines.reasoner.vllm.command import WATERMARK
from cosmos_batch.worker.loop import PREPARED_AT_ONCE

RESULT = FOLDER / "reasoner-gpu-2b.json"
ON_H100 = FOLDER / "reasoner-gpu-2b-h100-pair.json"  # of a later day, with the vision encoder compiled
NEWEST = FOLDER / "reasoner-gpu-2b-h100-four.json"  # with a part of the room for answers that grow kept free
QUEUED_ON_H200 = FOLDER / "reasoner-gpu-2b-h200-four.json"  # passes with different numbers of jobs prepared, and FP8
ON_H200 = FOLDER / "reasoner-gpu-2b-h200-pair.json"  # as it ships, and raw vLLM with as many clips on the next GPU
TWO_GPUS = FOLDER / "reasoner-gpu-32b.json"
FULL_GPU = FOLDER / "reasoner-full-gpu.json"
PREPARED_ON_H100 = FOLDER / "reasoner-gpu-2b-h100-prepared.json"  # the same on an H100
LARGE = FOLDER / "reasoner-gpu-2b-h100.json"  # clips of 1920 x 1080, 16-bit
LARGE_IN_FP8 = FOLDER / "reasoner-gpu-2b-h100-fp8.json"
OLDER_COMMIT = "0f4e7e0"
STARTS = {
    "6cdea055": FOLDER / "reasoner-start-2b.json",
    OLDER_COMMIT: FOLDER / f"reasoner-start-2b-{OLDER_COMMIT}.json",
}
"""Starts of two commits, beside each other on one host."""

INSPECTED_APART = "273d783a"
TINY_STARTS = [FOLDER / f"reasoner-start-tiny{ending}.json" for ending in ("", f"-{INSPECTED_APART}")]
"""Starts without a GPU: of a newer commit, and of one at which another process inspected the model's class."""

START_GOAL = 0.6  # time to the first answer with kept caches, relative to the older commit's
RATES = {"bf16": 15, "fp8": 20}  # goals, in clips per second of a steady state on an H100
_DECODERS = ("16 cores, CPU", "16 cores, GPU", "4 cores, GPU")
_HALF = 50  # percent of a second
_ALL = 1000  # jobs prepared at once, more than a worker has
BUSY, OF_ALL_CORES = 95, 0.9  # goals: percent of the time, and the rate with four cores relative to that with sixteen
_FP8_COMMAND = (
    "python -m benchmarks.reasoner.gpu --work FOLDER --into FILE --name fp8Cache --compare --passes 1 --steady 1000 "
    "--large 24 --lossy fp8,fp8Cache"
)
_RAW_COMMAND = (
    'python -m benchmarks.reasoner.comparison --shape 2b --steps raw --passes 1 --levels "" --work FOLDER --into FILE'
)
_DIFFERENT_THEN = """In these runs, and in those below:

- The stand-in for SQS gave ten messages at a time, also where the worker asked for one, so that up to nine more jobs
  were prepared. It gives no more than it is asked for since.
- Jobs that had been received more than 0.3 s ago counted too. Since then they do not.
- On the H100 the pass with all was the first after the warm-up, and each step of vLLM's scheduler was noted. Other runs
  on H100s took 20.6 to 21.6 s for such a pass.
- On the H200 the threads of the runs below took turns ten times as often as Python's do by default. Passes with and
  without that took the same time (commit c99093c6)."""
_NAMES = {
    "bf16": "16-bit",
    "fp8": "`--quantization fp8`",
    "fp8-kv": "`--quantization fp8 --kv-cache-dtype fp8`",
}


def text() -> str:
    """Return the section."""
    found = _read(RESULT)
    bf16 = found["bf16"]
    ready, plain, raw = best(bf16), bf16["plain"]["perSecond"], rate_of_raw(found)
    h100, newest, h200, queued = (_read(path) for path in (ON_H100, NEWEST, ON_H200, QUEUED_ON_H200))
    steady = h200["bf16"]["steady"]
    exact, in_fp8 = ([_steady(run, name) for run in (h100, newest)] for name in ("bf16", "fp8Cache"))
    large, large_in_fp8 = (_read(path) for path in (LARGE, LARGE_IN_FP8))
    cpu, gpu, few = (h200["bf16"][f"1080p, {of}"]["perSecond"] for of in _DECODERS)
    sampled = _read(gpu_decoding.RESULT)
    answers, load = bf16["answers"], found["workload"]
    return f"""## The reasoner on a GPU

{_about(found)}

| | clips per second, {load["clips"]} clips | steady state | GPU busy | clock, power |
|---|---|---|---|---|
| vLLM cuts the clips itself | {plain:.2f} | | {_gpu(bf16["plain"])} |
{_rows(found)}
| raw vLLM: `LLM.generate`, 16-bit | {raw:.2f} | | | |

- The rates of {load["clips"]} clips are those of our whole worker, from the queue to the callback, all sent at once:
  the GPU waits for the first clips, and ends with few. Steady states are of {bf16["steady"]["clips"]:,} clips
  ({found["fp8"]["steady"]["clips"]} with FP8), these ends included.
- "GPU busy", clock and power are means over the middle 70 % of the longest pass of the row, from `nvidia-smi`. The
  limit of power is 700 W, and the highest clock 1,980 MHz.
- Our server takes clips [as patches](decisions/068-clips-reach-vllm-as-patches.md). That is {ready / plain:.2f} times
  as fast as what vLLM does itself with the same clips in the same server.
- {answers["sameAnswers"]} of {answers["compared"]} greedy answers of 32 tokens are the same either way. The largest
  difference of a first token's log-probability is {answers["largestDifference"]:g}.
- vLLM ran the vision encoder as it is written. It is compiled [since then](#on-an-h100).
- `LLM.generate` gets frames that were decoded before its time begins, and all prompts at once.
- In a profile over {found["profile"]["seconds"]} s, the server's thread that prepares media was busy in
  {_share(found, "server: prepares media")} of the samples; it was the limit before. The eight threads that read and cut
  clips were busy in {_share(found, "server: eight threads that read and cut clips")} together, the main thread of the
  core in {_share(found, "core: main thread")}.

| goal | measured | |
|---|---|---|
| at least {RATES["bf16"]} clips per second, 16-bit, on an H100 | {exact[0]:.2f} on one H100 and \
{exact[1]:.2f} on another, with [all jobs prepared at once](#the-start-of-a-queue); no pass of 1,000 since; on an H200 \
{_steady(h200, "bf16"):.2f} | {_met(max(exact) >= RATES["bf16"])} |
| at least {RATES["fp8"]} clips per second, FP8, on an H100 | {in_fp8[0]:.2f} on one H100 and {in_fp8[1]:.2f} \
on another, with `fp8` and `fp8Cache`; no pass of 1,000 since; on an H200 {_steady(queued, "fp8Cache"):.2f} | \
{_met(max(in_fp8) >= RATES["fp8"])} |
| GPU busy at least {BUSY} % in a steady state, 16-bit, on an H200 | {steady["gpuSteady"]["busy"]:.1f} % in the middle \
70 %, {steady["gpu"]["busy"]:.1f} % with the ends | {_met(steady["gpu"]["busy"] >= BUSY)} |
| faster than raw vLLM in the same run on the same host | \
{_steady(h200, "bf16") / rate_of_raw(h200):.3f} times its rate with {steady["clips"]:,} clips, one pass of each; with \
{queued["workload"]["clips"]}, on another host, {best(queued["bf16"]) / rate_of_raw(queued):.2f} times | \
{_met(_steady(h200, "bf16") > rate_of_raw(h200), f" with {steady['clips']:,}, by what may be chance")} |
| 1920 x 1080: with 4 cores at least {OF_ALL_CORES} of the rate with 16, on an H200 | with `gpuDecode` {few:.2f} and \
{gpu:.2f} clips per second, {few / gpu:.2f}; without it {cpu:.2f} with 16, and 4 not measured | \
{_met(few >= OF_ALL_CORES * gpu)} |
| start to the first answer with kept caches at most {START_GOAL} of commit {OLDER_COMMIT}'s | {_start_ratio():.2f} | \
{_met(_start_ratio() <= START_GOAL)} |
| at least 600 times the clips of a process for each clip | not measured with this vLLM | **not met** |

{kernels_page.reasoner()}

The frames of raw vLLM are decoded before its time begins. Those of our worker's first clips are not, so that the GPU
waits for them.

### The start of a queue

{_start_of_a_queue(queued)}

### As it ships, on an H200

{_as_it_ships(h200, queued)}

### The start of a worker

{_starts(found)}

These starts were all on the H200 of the first table, with the files in the page cache.

### Answers that vLLM interrupts

{_interruptions(newest)}

### On an H100

{_on_h100(found, h100, large)}

{_on_h100_in_fp8(h100)}

{_newest(newest, h100)}

{kernels_page.reasoner_on_h100(newest)}

{_large(large, large_in_fp8, h200)}

{_gpu_decoding(sampled)}

{_two_starts()}

{_shorter_starts(newest, h100)}

### Two GPUs

{_two_gpus(_read(TWO_GPUS))}

### A GPU whose memory others hold

{_full_gpu(_read(FULL_GPU))}

Not measured with this release: a process for each clip, the 8B, raw vLLM on an H100. The last command needs two GPUs.

```
python -m benchmarks.reasoner.gpu --work FOLDER --into FILE --compare --plain --steady 1000 --large 32 --profile
python -m benchmarks.reasoner.gpu --work FOLDER --into FILE --passes 0
python -m benchmarks.reasoner.gpu --work FOLDER --into FILE --compare --steady 1000 --prepared 1000,16,8,4
python -m benchmarks.reasoner.comparison --shape 2b --steps start --work FOLDER --into FILE
python -m benchmarks.reasoner.comparison --shape tiny --steps start --work FOLDER --into FILE
python -m benchmarks.reasoner.gpu_decoding --work FOLDER --into FILE
{_FP8_COMMAND}
python -m benchmarks.reasoner.gpu --work FOLDER --into FILE --compare --passes 1 --steady 1000 --large 48
{_RAW_COMMAND} --clips 1000
{_RAW_COMMAND}
python -m benchmarks.reasoner.gpu --work FOLDER --into KERNELS --compare --kernels 128
python -m benchmarks.reasoner.gpu --work FOLDER --into KERNELS --name fp8 --compare --kernels 128 --lossy fp8
python -m benchmarks.reasoner.full_gpu --free 24,3 --work FOLDER --into FILE
python -m benchmarks.reasoner.gpu --work FOLDER --into FILE --shape 32b --compare --passes 1 -- --load-format dummy
```

"""


def _start_of_a_queue(h200: dict[str, Any]) -> str:
    """Say how many jobs a worker prepares at a time, and what the rates were when that was chosen."""
    exact, in_fp8 = h200["bf16"], h200["fp8Cache"]
    h100 = _read(PREPARED_ON_H100)
    about = filled(
        "A worker fetches the files of jobs, and decodes their clips, in threads that share one lock of Python's. "
        "Until commit 1d8e0d84 it received as many jobs as its engine has places, 272 here, and fetched their files "
        "in up to 64 threads at once, so that a thread that decodes waited for the lock. Now it prepares "
        f"{PREPARED_AT_ONCE} at a time. Passes over {exact['prepared 8']['clips']} clips in 16 bit, one after the "
        f"other in one process on each machine, on {h100['day']}. The GPU counts as busy from the first second of "
        "which it was busy for more than half:",
    )
    rows = ["| jobs prepared at once | H100 | H200 |", "|---|---|---|"]
    for jobs in (_ALL, 16, 8, 4):
        cells = [_pass_from(run["bf16"].get(f"prepared {jobs}")) for run in (h100, h200)]
        rows.append(f"| {'all' if jobs == _ALL else jobs} | {' | '.join(cells)} |")
    rates = filled(
        f"With 8, measured {h200['day']} on {h200['machine']}, while the host's other GPUs ran "
        f"benchmarks: {best(exact):.2f} clips per second of {exact['ready 0']['clips']}, "
        f"{_steady(h200, 'bf16'):.2f} of {exact['steady']['clips']:,}, both sent at once and with their ends. Raw vLLM "
        f"on the GPU beside it: {rate_of_raw(h200):.2f} of {h200['workload']['clips']}. "
        f"{exact['answers']['sameAnswers']} of {exact['answers']['compared']} greedy answers are the same with our "
        f"patches and with vLLM's. With `fp8` and `fp8Cache`: {best(in_fp8):.2f} and "
        f"{_steady(h200, 'fp8Cache'):.2f}. Between a quarter and seven tenths of the time of 1,000 clips, "
        f"{exact['steady']['perSecondSteady']:.2f} and {in_fp8['steady']['perSecondSteady']:.2f} a second were "
        "answered, by their tokens: clips that began together end together, so the rate rises and falls. Their GPUs "
        f"were busy for {exact['steady']['gpuSteady']['busy']:.1f} % and "
        f"{in_fp8['steady']['gpuSteady']['busy']:.1f} % of the middle 70 %.",
    )
    return "\n".join([about, "", *rows, "", _DIFFERENT_THEN, "", rates])


def _as_it_ships(h200: dict[str, Any], before: dict[str, Any]) -> str:
    """Return the rates with what is in the images, and those of raw vLLM on the host's other GPU."""
    exact, steady, answers = h200["bf16"], h200["bf16"]["steady"], h200["bf16"]["answers"]
    rates = filled(
        f"Measured {h200['day']} on {h200['machine']}, with commit 712256b7, to which nothing of the list above "
        f"applies: {best(exact):.2f} clips per second of {exact['ready 0']['clips']}, {_steady(h200, 'bf16'):.2f} of "
        f"{steady['clips']:,}, both sent at once and with their ends. In the middle 70 % of the longer pass the GPU "
        f"was busy for {steady['gpuSteady']['busy']:.1f} %, with the ends for {steady['gpu']['busy']:.1f} %. Raw "
        f"`LLM.generate` took {h200['workload']['clips']:,} clips, the same 256 with other system prompts as in our "
        f"pass, on the host's other GPU: {rate_of_raw(h200):.2f} a second, with frames that were decoded before its "
        "time began. That is one pass of each, so the difference of "
        f"{_steady(h200, 'bf16') / rate_of_raw(h200) - 1:.1%} may be chance. {answers['sameAnswers']} of "
        f"{answers['compared']} greedy answers are the same with our patches and with vLLM's.",
    )
    load, loaded_before = (run["bf16"]["loadWithoutCaches"] for run in (h200, before))
    loading = filled(
        "CUDA's compiler, which the machine has and our image does not, was hidden from vLLM. Where vLLM finds it, as "
        "in the runs before, it also tunes FlashInfer's kernels while it loads, by its code. Loading took "
        f"{load['seconds']:.0f} s without kept caches; in the run before, on another host, "
        f"{loaded_before['seconds']:.0f} s. Since commit 712256b7 vLLM keeps how much memory is left for keys and "
        "values, and captures CUDA graphs once less when it loads with kept caches. Here a capture took "
        f"{load['phases']['graphs']:.0f} s; what that commit gains was not measured.",
    )
    return f"{rates}\n\n{loading}"


def _two_gpus(found: dict[str, Any]) -> str:
    """Return the rate of a model that two GPUs share, and why it did not start before."""
    one, load, answers = found["bf16"]["ready 0"], found["bf16"]["loadWithoutCaches"], found["bf16"]["answers"]
    rate = filled(
        "The 32B, whose shape the Super reasoner has too, with the weights that vLLM draws (`--load-format dummy`), "
        f"measured {found['day']} on {found['machine']}: {one['perSecond']:.2f} clips per second of {one['clips']}, "
        f"all sent at once, the first GPU busy for {one['gpuSteady']['busy']:.1f} % of the middle 70 %. Loading took "
        f"{load['seconds']:.0f} s without kept caches. {answers['sameAnswers']} of {answers['compared']} greedy "
        "answers are the same with our patches and with vLLM's.",
    )
    why = filled(
        "In a run before, on two other H200, the server never answered: one GPU was busy, the other was not. Two "
        "things differ. The vision encoder is not compiled with several GPUs any more: one process compiles it while "
        "the other waits for the clip, and by vLLM's code the compiler waits for both where it fuses the sum over all "
        "GPUs with the normalization after it. And CUDA's compiler was hidden from vLLM, as in our image, where vLLM "
        "does not fuse them. Which of the two was needed was not tried.",
    )
    return f"{rate}\n\n{why}"


def _full_gpu(found: dict[str, Any]) -> str:
    """Say what the engine does where another process holds the GPU's memory."""
    some, none, filled_later = (found[name] for name in ("24 GiB free", "3 GiB free", "filled after loading"))
    return filled(
        f"Measured {found['day']} on {found['machine']}, the 2B. With 24 GiB free the engine loaded in "
        f"{some['loadSeconds']:.0f} s with its usual plan ({some['plan']}), and {some['job']}. With 3 GiB free it "
        f'refused at once: "{none["error"]["message"]} {none["error"]["remedy"]}" When another process took all but '
        f"half a GiB after it had loaded, it {filled_later['full']}, and once more when that process had ended. vLLM "
        "takes its memory when it loads, so no answer ran out of it.",
    )


def _pass_from(one: dict[str, Any] | None) -> str:
    """Return the seconds of a pass, and the first second in which the GPU was busy for more than half."""
    if one is None:
        return ""
    return f"{one['seconds']:.1f} s; GPU busy from second {_busy_from(one) + 1}"


def _busy_from(one: dict[str, Any]) -> int:
    """Return after how many seconds of a pass the GPU was first busy for more than half of one."""
    return next(second for second, busy in enumerate(one["gpuBusyBySecond"]) if (busy or 0) > _HALF)


def _interruptions(newest: dict[str, Any]) -> str:
    counted = {name: newest[name]["steady"]["interruptions"] for name in ("bf16", "fp8Cache")}
    results = kept("preemptions")
    at_once = results.measured[1].raw
    about = filled(
        f"[`preemptions.py`](../benchmarks/reasoner/preemptions.py) runs the scheduler of vLLM {at_once['vllm']} "
        f"without a model, with room for {BLOCKS * BLOCK:,} tokens, which vLLM reported for the 2B in 16 bit on an "
        "H100. Where an answer grows and no room is left, vLLM interrupts what began last, and later computes again "
        "what the cache has lost of its prompt and answer, and sometimes its clip. An answer that is interrupted costs "
        "most (the limit in the table was 3% of the tokens until clips that come all at once were scheduled too). A "
        "clip of which only the text before it was computed costs next to nothing: vLLM begins with that text "
        "while the vision encoder is busy with others. Our server keeps "
        f"{WATERMARK:.0%} of the room free when an answer begins, which it did not until commit 7a679f2b, and which "
        "the older vLLM of the image for CUDA 12.8 cannot. A larger part would interrupt fewer answers, and leave room "
        f"for fewer at once. On [an H100](#on-an-h100) with this part kept free vLLM counted {counted['bf16']} "
        "interruptions in 1,000 clips that were all sent at once, and the scheduler alone "
        f"{at_once['preemptions']}, of which {at_once['ofAnswers']} are of answers. With keys and values in FP8, which "
        f"have twice the room, it counted {counted['fp8Cache']}, and on an H200, which has more memory, "
        f"{_read(ON_H200)['bf16']['steady']['interruptions']} in 16 bit.",
    )
    return f"{table(results)}\n\n{about}"


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _on_h100(found: dict[str, Any], h100: dict[str, Any], earlier: dict[str, Any]) -> str:
    """Return the rates on an H100, also of an earlier run, and what memory and the compiled encoder do to them."""
    one, answers, load = h100["bf16"], h100["bf16"]["answers"], h100["bf16"]["loadWithoutCaches"]
    steady = one["steady"]
    before, now = (1000 * _busy_seconds(step) for step in (found["bf16"]["steady"], steady))
    terabytes = terabytes_read(steady)
    slower = 1000 * (terabytes / TERABYTES_PER_SECOND["H100"] - terabytes / TERABYTES_PER_SECOND["H200"])
    return filled(
        f"Measured {h100['day']} on {h100['machine']}, with the same versions, clips and commands, with vLLM's vision "
        "encoder compiled, and beside a benchmark of the host's other GPU: "
        f"{one['ready 0']['perSecond']:.2f} clips per second of {one['ready 0']['clips']}, "
        f"{steady['perSecond']:.2f} in a steady state of {steady['clips']:,}, in whose middle 70 % the GPU was busy "
        f"for {steady['gpuSteady']['busy']:.1f} %. On another machine with an H100, on {earlier['day']}, the steady "
        f"state was {earlier['bf16']['steady']['perSecond']:.2f}. {answers['sameAnswers']} of {answers['compared']} "
        f"greedy answers are the same with our patches and with vLLM's. The GPU was busy for {now:.1f} ms for each "
        f"clip, on the H200 for {before:.1f} ms: without any wait it would answer {1000 / now:.1f} a second. By "
        f"NVIDIA's data sheets an H100 reads its memory at {TERABYTES_PER_SECOND['H100']} TB/s and an H200 at "
        f"{TERABYTES_PER_SECOND['H200']} TB/s, so reading the kept keys and values alone takes {slower:.0f} ms more "
        "for a clip. What the compiled encoder gains was not measured, because no session ran both ways on one "
        f"machine. Loading took {load['seconds']:.0f} s without kept caches, {load['phases']['imports']:.0f} of them "
        "for imports.",
    )


def _busy_seconds(step: dict[str, Any]) -> float:
    """Return for how long the GPU was busy for each clip of a pass, in seconds."""
    return float(step["seconds"] * step["gpu"]["busy"] / 100 / step["clips"])


def _on_h100_in_fp8(h100: dict[str, Any]) -> str:
    """Return the rates with weights, keys and values in FP8 on an H100, and how far the answers agree."""
    one, steady, agreement = h100["fp8Cache"], h100["fp8Cache"]["steady"], h100["fp8Cache"]["agreement"]
    busy = 1000 * _busy_seconds(steady)
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
    idle = _busy_from(exact)
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


def _large(exact: dict[str, Any], found: dict[str, Any], h200: dict[str, Any]) -> str:
    """Say what limits large clips, by the results of a run in 16-bit and of one in FP8, and of one on an H200."""
    in_fp8, all_cores = found["fp8Cache"], exact["bf16"]["1080p, 16 cores, CPU"]
    cpu, gpu, few = (in_fp8[f"1080p, {decoder}"]["perSecond"] for decoder in _DECODERS)
    on_h200 = [h200["bf16"][f"1080p, {decoder}"] for decoder in _DECODERS]
    many, four = (one["gpuSteady"]["busy"] for one in on_h200[1:])
    return filled(
        "The clips of 1920 x 1080 (H.264, 30 frames per second, ten seconds, 7 Mbit/s, sampled at 4 frames per second) "
        f"are decoded on the CPU, which is what limits them: {all_cores['phases']['decode']:.1f} s each, in eight "
        "threads. `gpuDecode` leaves that to the GPU's decoder. With `fp8` and `fp8Cache`, in an earlier run "
        f"({found['day']}), a worker answered {cpu:.2f} of them per second without it and {gpu:.2f} with it on 16 "
        f"cores, and {few:.2f} with it on four, which is {few / cpu:.2f} of what 16 cores do without. On an H200 in "
        f"16-bit ({h200['day']}, {on_h200[0]['clips']} clips): {on_h200[0]['perSecond']:.2f}, "
        f"{on_h200[1]['perSecond']:.2f} and {on_h200[2]['perSecond']:.2f}. With four cores the GPU had its first work "
        f"{_busy_from(on_h200[2]) - _busy_from(on_h200[1])} s later than with 16, and was busy for {four:.0f} % of the "
        f"middle 70 %, with 16 for {many:.0f} %. The cores open and scale the clips, cut them into patches, and hand "
        "these to vLLM; how long each takes was not measured.",
    )


def _starts_by_commit() -> dict[str, dict[str, Any]]:
    return {commit: _read(path)["start"] for commit, path in STARTS.items()}


def _start_ratio() -> float:
    """Return how long a start with kept caches takes, relative to that of the older commit."""
    now, before = (start["with"]["seconds"] for start in _starts_by_commit().values())
    return float(now / before)


def _two_starts() -> str:
    """Return a start to the first answer by phase, of two commits on one host."""
    newest = _read(next(iter(STARTS.values())))
    starts = {
        f"{commit}, {words}": steps[step]
        for commit, steps in _starts_by_commit().items()
        for step, words in (("without", "without kept caches"), ("with", "with kept caches"))
    }
    start = newest["start"]["with"]
    about = filled(
        f"From the start of a process to the first answer, in 16-bit, with the page cache emptied before, on "
        f"{newest['machine']}, {newest['day']}: two commits beside each other on one host, each with a GPU and 16 "
        f"cores. With kept caches the newer one takes {_start_ratio():.2f} times as long. Both fork the engine's "
        "process, so that libraries are imported once, and both keep what is compiled. "
        f"Importing takes {start['phases']['engine: imports'] / start['seconds']:.0%} of the newer start.",
    )
    phases = {name: {"seconds": one["seconds"], "phases": _of_engine(one["phases"])} for name, one in starts.items()}
    return f"{about}\n\n{_table_of_starts('start, 2B', phases)}"


def _shorter_starts(newest: dict[str, Any], h100: dict[str, Any]) -> str:
    after_on_gpu, before_on_gpu = (one["bf16"]["loadWithoutCaches"] for one in (newest, h100))
    newer, older = (_read(path) for path in TINY_STARTS)
    after, before = (found["start"]["without"]["seconds"] for found in (newer, older))
    return filled(
        f"Since then, a first start is shorter. Until commit {INSPECTED_APART}, vLLM started another process that "
        "imported everything once more, only to inspect the model's class, where no kept caches had what it found. Now "
        f"the process that has imported the class does that. On {newer['machine']}, a tiny model's first answer "
        f"without kept caches came after {after:.1f} s in place of {before:.1f} s (one start of each, {newer['day']}). "
        f"In two runs on two hosts with an H100, imports took {before_on_gpu['phases']['imports']:.0f} s before and "
        f"{after_on_gpu['phases']['imports']:.0f} s after; no run had both, so this does not show what it gains there. "
        f"Both loads took {after_on_gpu['seconds']:.0f} to {before_on_gpu['seconds']:.0f} s: compiling took "
        f"{before_on_gpu['phases']['compile']:.0f} s before and {after_on_gpu['phases']['compile']:.0f} s after. "
        "Cosmos3-Edge and the image for CUDA 12.8 do as before.",
    )


def _of_engine(phases: dict[str, float]) -> dict[str, float]:
    """Return the phases of a process that are its engine's, by the names that the engine gives them."""
    prefix = "engine: "
    return {name.removeprefix(prefix): seconds for name, seconds in phases.items() if name.startswith(prefix)}


def _gpu_decoding(found: dict[str, Any]) -> str:
    """Return how fast clips are sampled without a model, by both decoders."""
    frames = found["frames"]
    about = filled(
        f"Measured {found['day']} on {found['machine']}: {found['clips']} of these clips, decoded and scaled without a "
        "model, in eight threads, as a worker has with `gpuDecode`. Without it, one on four cores has two, which was "
        "not measured. "
        f"{found.get('note', '')} The frames of the GPU are the same to the last bit as those of the CPU in "
        f"{frames['same']} of {frames['clips']} clips compared. Opening a clip and scaling its frames is left to the "
        "cores.",
    )
    rows = [
        f"| {one['decoder'].upper()}, {one['cores']} cores | {one['perSecond']:.2f} | "
        f"{one['cpuSecondsPerClip']:.2f} s |"
        for one in found["rates"]
    ]
    return "\n".join([about, "", "| decoder | clips per second | CPU time of a clip |", "|---|---|---|", *rows])


def best(found: dict[str, Any]) -> float:
    """Return the best rate of all clips at once."""
    return max(float(found[step]["perSecond"]) for step in found if step.startswith("ready"))


def rate_of_raw(found: dict[str, Any]) -> float:
    """Return the clips per second of `LLM.generate`."""
    return float(found["workload"]["clips"] / found["raw"]["passes"][0]["seconds"])


def _steady(found: dict[str, Any], name: str) -> float:
    return float(found[name]["steady"]["perSecond"])


def _about(found: dict[str, Any]) -> str:
    load = found["workload"]
    return filled(
        f"Measured {found['day']} on {found['machine']}, vLLM {found['vllm']}, torch {found['torch']}, as the lock of "
        f"the image has them: random weights in the true {load['shape'].upper()} shape, {load['clips']} different "
        f"clips of four seconds at 640 x 480, for each {round(found['bf16']['ready 0']['promptTokens']):,} tokens of "
        f"prompt and {load['tokens']} of answer. All in one session on one machine.",
    )


def _rows(found: dict[str, Any]) -> str:
    rows = []
    for name, words in _NAMES.items():
        steady = found[name].get("steady")
        rate = "" if steady is None else f"{steady['perSecond']:.2f}"
        rows.append(
            f"| our worker, {words} | {best(found[name]):.2f} | {rate} | {_gpu(steady or found[name]['ready 0'])} |"
        )
    return "\n".join(rows)


def _gpu(one: dict[str, Any]) -> str:
    gpu = one["gpuSteady"]
    return f"{gpu['busy']:.1f} % | {gpu['megahertz']:,.0f} MHz, {gpu['watts']:.0f} W"


def _share(found: dict[str, Any], thread: str) -> str:
    profile = found["profile"]
    return f"{profile['samples'][thread] / profile['hertz'] / profile['seconds']:.0%}"


def _met(met: bool, where: str = "") -> str:
    return f"met{where}" if met else "**not met**"


def _starts(found: dict[str, Any]) -> str:
    starts = {
        f"{words}, {with_caches}": found[name][step]
        for name, words in (("bf16", "16-bit"), ("fp8", "FP8"))
        for step, with_caches in (("loadWithoutCaches", "without kept caches"), ("load", "with kept caches"))
        if step in found[name]
    }
    return _table_of_starts("start of a worker, 2B", starts)


def _table_of_starts(title: str, starts: dict[str, dict[str, Any]]) -> str:
    """Return the seconds of each phase of some starts, all of which have the same phases."""
    rows = [f"| {title} | {' | '.join(starts)} |", f"|---|{'---|' * len(starts)}"]
    for phase in next(iter(starts.values()))["phases"]:
        rows.append(f"| {phase} | " + " | ".join(f"{one['phases'][phase]:.1f} s" for one in starts.values()) + " |")
    rows.append("| all | " + " | ".join(f"{one['seconds']:.1f} s" for one in starts.values()) + " |")
    return "\n".join(rows)
