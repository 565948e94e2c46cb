"""Write the part of the reasoner's section about how long a worker starts, by phase."""

from statistics import fmean
from typing import Any

from benchmarks.paragraphs import filled, listed
from benchmarks.results import FOLDER, stored

OLDER_COMMIT = "0f4e7e0"
STARTS = (FOLDER / "reasoner-start-2b.json", FOLDER / f"reasoner-start-2b-{OLDER_COMMIT}.json")
"""Starts of two commits, beside each other on one host; the newer one first."""

PROFILE = FOLDER / "reasoner-start-profile.json"  # a start with kept caches, of a commit between these two
START_GOAL = 0.6  # time with kept caches, relative to the older commit's
_ENGINE = "engine: "  # before the names of the engine's phases


def text(in_fp8: float) -> str:
    """Return starts of two commits beside each other, and why one takes less time.

    `in_fp8` are the seconds of a load with FP8 without kept caches, at the newer commit on the same host.
    """
    newer, older = (stored(path) for path in STARTS)
    return f"""{_two_starts(newer, older)}

{_table(newer, older)}

{_profile(stored(PROFILE))}

{_changes(newer, older, in_fp8)}"""


def commit() -> str:
    """Return the newer of the two commits."""
    return str(stored(STARTS[0])["commit"])


def ratio() -> float:
    """Return how long a start with kept caches takes, relative to that of the older commit."""
    now, before = (fmean(_seconds(stored(path))) for path in STARTS)
    return now / before


def ratio_until_ready() -> float:
    """Return the same for the time until the engine can be asked."""
    now, before = (_until_ready(stored(path)) for path in STARTS)
    return now / before


def _with_caches(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the starts with kept caches."""
    return [start for name, start in found["start"].items() if name.startswith("with ") or name == "with"]


def _seconds(found: dict[str, Any]) -> list[float]:
    return [start["seconds"] for start in _with_caches(found)]


def _until_ready(found: dict[str, Any]) -> float:
    """Return the mean seconds until the engine can be asked, with kept caches."""
    return fmean(start["seconds"] - start["phases"]["answer"] for start in _with_caches(found))


def _two_starts(newer: dict[str, Any], older: dict[str, Any]) -> str:
    now, before = (listed(_seconds(found), 1) for found in (newer, older))
    return filled(
        f"From the start of a process to the first answer about a clip, in 16-bit, measured {newer['day']} on "
        f"{newer['machine']}: commits {newer['commit']} and {older['commit']} beside each other on one host, each "
        "with a GPU and 16 cores, at each step at the same time. The page cache was emptied before, packages were "
        "compiled to bytecode as in our images, and vLLM did not find CUDA's compiler. With kept caches, of which "
        f"there were two starts each, the newer one takes {now} s and the older one {before} s: {ratio():.2f} of the "
        f"time. Until it can be asked it is {_until_ready(newer):.1f} and {_until_ready(older):.1f} s, "
        f"{ratio_until_ready():.2f} of the time. Until this run the benchmark asked a question without a clip, which "
        "is answered at once then; with it, commit 6cdea055 took 1.04 times as long as the older one on an H100.",
    )


def _table(newer: dict[str, Any], older: dict[str, Any]) -> str:
    """Return the seconds of each phase; those with kept caches are means."""
    columns = {
        f"{found['commit']}, {words} kept caches": [phases_of(start) for start in starts]
        for found in (newer, older)
        for words, starts in (("without", [found["start"]["without"]]), ("with", _with_caches(found)))
    }
    rows = [f"| start, 2B | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for phase in next(iter(columns.values()))[0]:
        cells = [f"{fmean(start[phase] for start in starts):.1f} s" for starts in columns.values()]
        rows.append(f"| {phase} | {' | '.join(cells)} |")
    return "\n".join(rows)


def phases_of(start: dict[str, Any]) -> dict[str, float]:
    """Return the seconds of a start by phase: those of the engine, what is left for the worker, and the first clip."""
    phases = start["phases"]
    engine = {name.removeprefix(_ENGINE): seconds for name, seconds in phases.items() if name.startswith(_ENGINE)}
    worker = start["seconds"] - sum(engine.values()) - phases["answer"]
    return {**engine, "the worker itself": worker, "the first clip": phases["answer"], "all": start["seconds"]}


def _profile(found: dict[str, Any]) -> str:
    server, engine, first = found["server"], found["engine"], found["first clips"]
    return filled(
        f"Where the time went before, in a profile of a start with kept caches (py-spy, {found['day']}, commit "
        f"{found['commit']}, another H200, the page cache not emptied, packages not compiled to bytecode): vLLM's "
        f"server was busy for {server['all']:.1f} s, of which compiling modules took {server['source_to_code']:.1f} "
        f"s, nine copies of the tokenizer {server['maybe_make_thread_pool']:.1f} s, and loading a processor of "
        f"transformers {server['get_hf_processor']:.1f} s. Its engine was busy for {engine['all']:.1f} s: compiling "
        f"modules took {engine['source_to_code']:.1f} s, capturing CUDA graphs {engine['capture_model']:.1f} s, and "
        "collecting garbage, mostly before it measures memory, "
        f"{engine['DeviceMemoryProfiler'] + engine['freeze_gc']:.1f} s. While the first clips waited, the server "
        f"loaded another processor for {first['get_hf_processor']:.1f} s, {first['maybe_make_thread_pool']:.1f} s of "
        "which were further copies of the tokenizer.",
    )


def _changes(newer: dict[str, Any], older: dict[str, Any], in_fp8: float) -> str:
    warm, warm_before = (
        listed((start["phases"][f"{_ENGINE}warmup"] for start in _with_caches(found)), 1) for found in (newer, older)
    )
    kept = filled(
        "- vLLM keeps how much memory was left for keys and values with what it compiles "
        "(`VLLM_ENABLE_STARTUP_PLAN`). Where as much is free in a later start, it does not measure that again: with "
        f"kept caches, `warmup` takes {warm} s, and took {warm_before} s.",
        subsequent_indent="  ",
    )
    others = filled(
        f"With `fp8` and `fp8Cache`, loading took {in_fp8:.0f} s without kept caches on this host. Other loads on a "
        "GPU that are on this page were measured without bytecode, so they probably took longer than they would in "
        "our images. In the image for CUDA 12.8, whose vLLM is 0.19.1, the tokenizer and the processor are as before.",
    )
    return f"""What is different in {newer["commit"]}, beside the compiled vision encoder:

- One copy of the tokenizer is made before the engine's process starts. The others, and the processor, come while the
  engine loads.
- The server imports without collecting garbage, and what it has imported is left out of later collections.
- CUDA graphs are captured only of steps without new prompts, and no helper programs for packed weights are compiled.
  A start was not measured with this alone, and [one pass](#the-reasoner-on-a-gpu) was with the other graphs. No step of
  vLLM's scheduler would have used them ([below](#answers-that-vllm-interrupts)).
- No other process imports everything once more, only to inspect the model's class. It did where no kept caches had what
  it found, and still does with Cosmos3-Edge.
{kept}

{others}"""
