"""Write tables of the GPU's seconds by kind of kernel, for the sections about the reasoner and the generator."""

from typing import Any

from benchmarks.paragraphs import filled
from benchmarks.results import FOLDER, stored

REASONER = FOLDER / "reasoner-kernels-2b.json"
GENERATOR = FOLDER / "generator-kernels-nano.json"
_NAMES = {"bf16": "16-bit", "fp8": "FP8", "fp8Cache": "`fp8` and `fp8Cache`", "plain": "as it ships"}
KINDS = {
    "products": "products of matrices",
    "attention": "attention",
    "convolutions": "convolutions",
    "compiled": "compiled by Inductor",
    "copies": "copies",
    "other": "others",
}
_SIZE = "832x480"
_STEPS = 35  # of a video; the profile has fewer
_KEYS_AND_VALUES = "cute::C<1> >, cute::tuple<cute::C<64>, cute::C<128>, cute::C<128> >, 128, cutlass::bfloat16_t"
"""Part of the name of FlashAttention's kernel that reads kept keys and values, 64 rows of queries at a time."""
_KEYS_AND_VALUES_IN_FP8 = (
    "cute::C<1> >, cute::tuple<cute::C<64>, cute::C<96>, cute::C<128> >, 128, cutlass::float_e4m3_t"
)
"""The same for keys and values in FP8."""
_BYTES_OF_A_TOKEN = 28 * 8 * 128 * 2 * 2  # layers, heads, numbers of keys and of values, in 16 bit
TERABYTES_PER_SECOND = {"H100": 3.35, "H200": 4.8}  # of the GPU's memory (NVIDIA's data sheets)


def reasoner() -> str:
    """Return the profile of the reasoner, and what FP8 changes."""
    found = stored(REASONER)
    profiles = {name: found[name]["kernels"] for name in ("bf16", "fp8")}
    exact, fp8 = profiles["bf16"], profiles["fp8"]
    rounding = fp8["kinds"]["compiled"] - exact["kinds"]["compiled"]
    reading = sum(seconds for name, seconds in exact["longest"].items() if _KEYS_AND_VALUES in name)
    answers, asked = found["fp8"]["agreement"], found["bf16"]["ready 0"]
    tokens = asked["promptTokens"] + asked["tokens"] / 2
    terabytes = terabytes_read(asked) * exact["clips"]
    paragraph = (
        f"FP8 gains little, because it shortens the products of matrices alone: {exact['kinds']['products']:.2f} s to "
        f"{fp8['kinds']['products']:.2f} s, while rounding what is multiplied takes another {rounding:.2f} s. "
        f"Attention takes {exact['kinds']['attention'] / exact['busy']:.0%} of the GPU's busy time. {reading:.2f} s "
        "of it are one kernel, which reads the kept keys and values of each clip for "
        f"each token of its answer: {_BYTES_OF_A_TOKEN / 1024:.0f} KiB for each of {tokens:,.0f} tokens on average, "
        f"{asked['tokens']:.0f} times, for {exact['clips']} clips, are {terabytes:.1f} TB. These are "
        f"{terabytes / reading:.1f} TB/s of the {TERABYTES_PER_SECOND['H200']} that the memory has, so only "
        "fewer bytes make it faster, as with `fp8Cache` ([on an H100](#on-an-h100)). With `fp8` alone, "
        f"{answers['sameAnswers']} of {answers['compared']} greedy answers of 32 tokens are the same as in 16 bit. "
        f"{answers['sameFirstToken']} first tokens are, and their log-probabilities differ by up to "
        f"{answers['largestDifference']:.2f}. With random weights many tokens are about as probable as the first, so "
        "this tells nothing of a trained model. In all these profiles a kernel that Inductor compiled counts as such, "
        "also where it prepares a product of matrices; that was corrected on 2026-11-28, for the 40 longest kernels of "
        "each profile."
    )
    return f"""{filled(_about(found, f"{exact['clips']} clips, all sent at once"))}

{_table(profiles)}

{filled(paragraph)}"""


def reasoner_on_h100(found: dict[str, Any]) -> str:
    """Return the profile of the reasoner with weights, keys and values in FP8 on an H100, with the encoder compiled."""
    profile, asked = found["fp8Cache"]["kernels"], found["fp8Cache"]["ready 0"]
    kinds = profile["kinds"]
    reading = sum(seconds for name, seconds in profile["longest"].items() if _KEYS_AND_VALUES_IN_FP8 in name)
    terabytes = terabytes_read(asked) / 2 * profile["clips"]  # of one byte each, not two
    busy = 1000 * profile["busy"] / profile["clips"]
    about = (
        f"Where its time goes with `fp8` and `fp8Cache`, in a profile of {profile['clips']} clips of that run, all "
        "sent at once:"
    )
    paragraph = (
        f"Kernels run for {busy:.1f} ms for a clip, so {1000 / busy:.1f} clips per second are the most. Reading kept "
        f"keys and values takes {reading / profile['busy']:.0%} of that, at {terabytes / reading:.1f} of "
        f"{TERABYTES_PER_SECOND['H100']} TB/s, products of matrices {kinds['products'] / profile['busy']:.0%}, and "
        f"what Inductor compiled, most of it kernels that also round to FP8, {kinds['compiled'] / profile['busy']:.0%}."
    )
    return f"{filled(about)}\n\n{_table({'fp8Cache': profile})}\n\n{filled(paragraph)}"


def terabytes_read(answers: dict[str, Any]) -> float:
    """Return how much of the kept keys and values is read for one clip of a pass, in terabytes: all for each token."""
    tokens = answers["promptTokens"] + answers["tokens"] / 2
    return float(tokens * _BYTES_OF_A_TOKEN * answers["tokens"] / 1e12)


def generator() -> str:
    """Return the profile of a video by vLLM-Omni."""
    found = stored(GENERATOR)
    profiles = {name: found["modes"][name][_SIZE] for name in ("plain", "fp8")}
    plain, fp8 = (profiles[name]["kinds"] for name in profiles)
    attention = fp8["attention"] * _STEPS / found["steps"]
    paragraph = (
        f"FP8 shortens the products of matrices from {plain['products']:.2f} s to {fp8['products']:.2f} s, while "
        f"rounding what is multiplied takes another {fp8['compiled'] - plain['compiled']:.2f} s. Attention stays in 16 "
        f"bit, and takes {fp8['attention'] / profiles['fp8']['busy']:.0%} of the time then: about "
        f"{attention:.0f} s in {_STEPS} steps. The VAE, most of the convolutions, takes the same time for any number "
        "of steps. So even if products took no time at all, the goal for FP8 would be missed without a faster "
        "attention."
    )
    what = f"a video of {_SIZE} with {found['steps']} steps, all of which take the same time"
    return f"""{filled(_about(found, what))}

{_table(profiles)}

{filled(paragraph)}"""


def _about(found: dict[str, Any], what: str) -> str:
    return (
        f"Where the GPU's time goes, in a profile of {what} (PyTorch's profiler, {found['day']}, another run with "
        "the same versions on an H200):"
    )


def _table(profiles: dict[str, dict[str, Any]]) -> str:
    kinds = [kind for kind in KINDS if any(kind in one["kinds"] for one in profiles.values())]
    rows = [
        f"| | {' | '.join(KINDS[kind] for kind in kinds)} | busy | from the first kernel to the last |",
        f"|---|{'---|' * (len(kinds) + 2)}",
    ]
    for name, one in profiles.items():
        seconds = " | ".join(f"{one['kinds'].get(kind, 0.0):.2f} s" for kind in kinds)
        rows.append(f"| {_NAMES[name]} | {seconds} | {one['busy']:.2f} s | {one['span']:.2f} s |")
    return "\n".join(rows)
