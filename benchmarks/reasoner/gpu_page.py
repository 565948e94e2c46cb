"""Write the section of `docs/benchmarks.md` about the reasoner with the vLLM that the images hold."""

from typing import Any

from benchmarks import kernels_page
from benchmarks.paragraphs import filled
from benchmarks.reasoner import (
    commands_page,
    goals_page,
    h100_page,
    large_page,
    queue_start_page,
    shipped_page,
    start_page,
)
from benchmarks.reasoner.gpu_results import (
    EIGHT,
    FULL_GPU,
    HOSTS_WITH_H200,
    NEWEST,
    ON_H100,
    ON_H200,
    PREPARED_ON_H200,
    PROCESSES,
    QUEUED_ON_H200,
    RESULT,
    SHIPPED_ON_H200,
    TWO_GPUS,
    best,
    rate_of_raw,
)
from benchmarks.reasoner.preemptions import BLOCK, BLOCKS
from benchmarks.results import kept, stored, table
from cosmos_batch.engines.reasoner.vllm.command import WATERMARK

_NAMES = {
    "bf16": "16-bit",
    "fp8": "`--quantization fp8`",
    "fp8-kv": "`--quantization fp8 --kv-cache-dtype fp8`",
}


def text() -> str:
    """Return the section."""
    found, h100, newest = (stored(path) for path in (RESULT, ON_H100, NEWEST))
    shipped, hosts = (stored(path) for path in (SHIPPED_ON_H200, HOSTS_WITH_H200))
    h200, queued, prepared = (stored(path) for path in (ON_H200, QUEUED_ON_H200, PREPARED_ON_H200))
    return f"""## The reasoner on a GPU

{shipped_page.as_it_ships(shipped, hosts, prepared, h200)}

{goals_page.goals(h100, newest, shipped, hosts, prepared)}

### Our patches and vLLM's own

{_patches(found)}

### Where the GPU's time goes

{kernels_page.reasoner()}

### The start of a queue

{queue_start_page.text(queued, prepared)}

### The start of a worker

{start_page.text(stored(PROCESSES)["fp8Cache"]["loadWithoutCaches"]["seconds"])}

### Answers that vLLM interrupts

{_interruptions(newest)}

### On an H100

{h100_page.text(h200, h100, newest)}

{kernels_page.reasoner_on_h100(newest)}

### Clips of 1920 x 1080

{large_page.text(shipped)}

### The 8B

{_eight(stored(EIGHT))}

### Two GPUs

{_two_gpus(stored(TWO_GPUS))}

### A GPU whose memory others hold

{_full_gpu(stored(FULL_GPU))}

### Commands

{commands_page.text()}

"""


def _patches(found: dict[str, Any]) -> str:
    """Return an earlier run, which compared our patches with those that vLLM cuts."""
    bf16, load = found["bf16"], found["workload"]
    answers, plain = bf16["answers"], bf16["plain"]["perSecond"]
    about = filled(
        f"Measured {found['day']} on {found['machine']}, with the same versions, all in one run. vLLM ran the "
        "vision encoder as it is written, which is compiled since then; all jobs were prepared at once; and CUDA's "
        "compiler was not hidden. Steady states are of "
        f"{bf16['steady']['clips']:,} clips ({found['fp8']['steady']['clips']} with FP8):",
    )
    return f"""{about}

| | clips per second, {load["clips"]} clips | steady state | GPU busy | clock, power |
|---|---|---|---|---|
| vLLM cuts the clips itself | {plain:.2f} | | {_gpu(bf16["plain"])} |
{_rows(found)}
| raw vLLM: `LLM.generate`, 16-bit | {rate_of_raw(found):.2f} | | | |

{filled(_of_patches(found), subsequent_indent="  ")}
- {answers["sameAnswers"]} of {answers["compared"]} greedy answers of 32 tokens are the same either way. The largest
  difference of a first token's log-probability is {answers["largestDifference"]:g}.
{filled(_of_the_profile(found), subsequent_indent="  ")}"""


def _of_patches(found: dict[str, Any]) -> str:
    bf16 = found["bf16"]
    return (
        "- Our server takes clips [as patches](decisions/068-clips-reach-vllm-as-patches.md). That is "
        f"{best(bf16) / bf16['plain']['perSecond']:.2f} times as fast as what vLLM does itself with the same clips in "
        "the same server."
    )


def _of_the_profile(found: dict[str, Any]) -> str:
    return (
        f"- In a profile over {found['profile']['seconds']} s, the server's thread that prepares media was busy in "
        f"{_share(found, 'server: prepares media')} of the samples; it was the limit before. The eight threads that "
        f"read and cut clips were busy in {_share(found, 'server: eight threads that read and cut clips')} together, "
        f"the main thread of the core in {_share(found, 'core: main thread')}."
    )


def _eight(found: dict[str, Any]) -> str:
    """Return the rates of the 8B in 16-bit and in FP8, and how far FP8 changes it."""
    exact, in_fp8, later = found["bf16"], found["fp8Cache"], found["later"]
    steady, few, answers = exact["steady"], in_fp8["ready 0"], exact["answers"]
    rates = filled(
        f"Measured {found['day']} on {found['machine']}, at commit {found['commit']}, without CUDA's compiler, with "
        f"random weights in the true shape: {steady['perSecond']:.2f} clips per second of {steady['clips']}, in whose "
        f"middle 70 % the GPU was busy for {steady['gpuSteady']['busy']:.1f} %, and {best(exact):.2f} of "
        f"{exact['ready 0']['clips']}. {answers['sameAnswers']} of {answers['compared']} greedy answers are the same "
        f"with our patches and with vLLM's. With `fp8` and `fp8Cache`: {few['perSecond']:.2f} of {few['clips']}. On "
        f"another host, at commit {later['commit']}: {best(later['bf16']):.2f} of {few['clips']} in 16-bit, and "
        f"{best(later['fp8']):.2f} with `fp8` alone.",
    )
    one, prompts, spread = later["fp8"]["agreement"], later["fp8"]["prompts"], later["bf16"]["answers"]
    of_2b = stored(ON_H200)
    changed = filled(
        f"{one['sameFirstToken']} of {one['compared']} first tokens of greedy answers are the same with `fp8` as in "
        "16-bit, where it is one and the same for all clips, with a log-probability of "
        f"{min(answers['firstLogProbabilities']):.2f} to {max(answers['firstLogProbabilities']):.2f}; with random "
        "weights many tokens may be about as probable. The log-probabilities of the question's tokens tell more, since "
        f"they are of the same tokens in any case: {prompts['tokens']} of them differ by {prompts['mean']:.2f} in the "
        f"mean and {prompts['largest']:.2f} at most. That is {prompts['mean'] / spread['questionSpread']:.2f} of "
        "their standard deviation, and of the 2B with `fp8` and `fp8Cache` "
        f"{of_2b['fp8Cache']['prompts']['mean'] / of_2b['bf16']['answers']['questionSpread']:.2f}: FP8 changes the 8B "
        "about as little. A trained model was not measured.",
    )
    return f"{rates}\n\n{changed}"


def _two_gpus(found: dict[str, Any]) -> str:
    """Return the rate of a model that two GPUs share, and why it did not start before."""
    one, load, answers = found["bf16"]["ready 0"], found["bf16"]["loadWithoutCaches"], found["bf16"]["answers"]
    rate = filled(
        "The 32B, whose shape the Super reasoner has too, with the weights that vLLM draws (`--load-format dummy`), "
        f"measured {found['day']} on {found['machine']}: {one['perSecond']:.2f} clips per second of {one['clips']}, "
        f"all sent at once, the first GPU busy for {one['gpuSteady']['busy']:.1f} % of the middle 70 %. Loading took "
        f"{load['seconds']:.0f} s without kept caches. {answers['sameAnswers']} of {answers['compared']} greedy "
        "answers are the same with our patches and with vLLM's, which says little with random weights.",
    )
    why = filled(
        "In a run before, on two other H200, the server never answered: one GPU was busy, the other was not. Two "
        "things differ. The vision encoder is not compiled with several GPUs any more: one process compiles it while "
        "the other waits for the clip, and by vLLM's code the compiler waits for both where it fuses the sum over all "
        "GPUs with the normalization after it. And vLLM did not find CUDA's compiler, as in our image, without which "
        "it does not fuse them. Which of the two was needed was not tried.",
    )
    return f"{rate}\n\n{why}"


def _full_gpu(found: dict[str, Any]) -> str:
    """Say what the engine does where another process holds the GPU's memory."""
    some, none, filled_later = (found[name] for name in ("24 GiB free", "3 GiB free", "filled after loading"))
    return filled(
        f"Measured {found['day']} on {found['machine']}, the 2B. With 24 GiB free the engine loaded in "
        f"{some['loadSeconds']:.0f} s with its usual plan ({some['plan']}), and {some['job']}. With 3 GiB free it "
        "refused at once, before it started vLLM: "
        f'"{none["error"]["message"]} {none["error"]["remedy"]}" '
        "When another process took all but "
        f"half a GiB after it had loaded, it {filled_later['full']}, and once more when that process had ended. vLLM "
        "takes its memory when it loads. Several clips at once were not tried.",
    )


def _interruptions(newest: dict[str, Any]) -> str:
    counted = {name: newest[name]["steady"]["interruptions"] for name in ("bf16", "fp8Cache")}
    results = kept("preemptions")
    at_once = results.measured[1].raw
    small, steps = (
        [sum(row.raw[name] for row in results.measured[of::2]) for of in (0, 1)] for name in ("smallSteps", "steps")
    )
    about = filled(
        f"[`preemptions.py`](../benchmarks/reasoner/preemptions.py) runs the scheduler of vLLM {at_once['vllm']} "
        f"without a model, with room for {BLOCKS * BLOCK:,} tokens, which vLLM reported for the 2B in 16 bit on an "
        "H100. Where an answer grows and no room is left, vLLM interrupts what began last, and later computes again "
        "what the cache has lost of its prompt and answer, and sometimes its clip. An answer that is interrupted "
        "costs most (the limit in the table was 3% of the tokens until clips that come all at once were scheduled "
        "too). A clip of which only the text before it was computed costs next to nothing: vLLM begins with that "
        f"text while the vision encoder is busy with others. Our server keeps {WATERMARK:.0%} of the room free when "
        "an answer begins, which it did not until commit 7a679f2b, and which the older vLLM of the image for CUDA "
        "12.8 cannot. A larger part would interrupt fewer answers, and leave room for fewer at once. On [an "
        f"H100](#on-an-h100) with this part kept free vLLM counted {counted['bf16']} interruptions in 1,000 clips "
        f"that were all sent at once, and the scheduler alone {at_once['preemptions']}, of which "
        f"{at_once['ofAnswers']} are of answers. With keys and values in FP8, which have twice the room, it counted "
        f"{counted['fp8Cache']}, and on an H200, which has more memory, "
        f"{stored(ON_H200)['bf16']['steady']['interruptions']} in 16 bit. With this part kept free, "
        f"{small[1]} of {steps[1]:,} steps in the table had new prompts and at most 512 tokens in all, without it "
        f"{small[0]} of {steps[0]:,}: only for these would vLLM capture the CUDA graphs that our server does not.",
    )
    return f"{table(results)}\n\n{about}"


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
