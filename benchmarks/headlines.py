"""Write the section of the README with the figures that most people ask for, from the stored results."""

from pathlib import Path

from benchmarks.generator import accelerations_page, mode_results, modes_page
from benchmarks.paragraphs import listed
from benchmarks.reasoner import goals_page, gpu_results
from benchmarks.results import kept, stored
from benchmarks.runs import cost as runs_cost
from benchmarks.runs.page import KILLS
from benchmarks.simulation.million_clips import RESULTS

README = Path(__file__).parent.parent / "README.md"
WORKERS = 80  # of the simulated run that is shown
_TITLE = "## Figures\n"


def text() -> str:
    """Return the section, with the line of its title."""
    return f"""{_TITLE}
| what | measured |
|---|---|
{_reasoner()}
{_generator()}
{_diffusers()}
{_kills()}
{_services()}
{_simulation()}
{_console()}

[Benchmarks](docs/benchmarks.md) has the machines, the versions, the goals that are not met, and the commands.

"""


def write() -> None:
    """Replace the section in the README."""
    before, _, rest = README.read_text(encoding="utf-8").partition(_TITLE)
    after = rest.partition("\n## ")[2]
    README.write_text(f"{before}{text()}## {after}", encoding="utf-8")


def _reasoner() -> str:
    shipped = stored(gpu_results.SHIPPED_ON_H200)
    ours, raw = gpu_results.rates_in_turn(shipped)
    on_h100 = [gpu_results.steady_rate(stored(path), "bf16") for path in (gpu_results.ON_H100, gpu_results.NEWEST)]
    in_fp8, raw_in_fp8 = gpu_results.rates_in_turn(stored(gpu_results.FP8_THREE_TURNS))
    return (
        "| reasoner, the shape of Cosmos-Reason2-2B with random weights, clips of four seconds, one H200, vLLM "
        f"{shipped['vllm']} | {listed(ours, 1)} clips a second for {shipped['clips']:,} sent at once, the start and "
        f"the end of the queue included; raw `LLM.generate`, run alternately on the same GPU: {listed(raw, 1)}. With "
        f"`fp8` and `fp8Cache`, on another H200, alternately too: {listed(in_fp8, 1)}; raw `LLM.generate` in FP8: "
        f"{listed(raw_in_fp8, 1)}. On two H100, with earlier commits: {listed(on_h100, 2)}, below the goal of "
        f"{goals_page.RATES['bf16']} |"
    )


def _generator() -> str:
    results, on_h100 = (mode_results.read(path) for path in (modes_page.RESULT, modes_page.EARLIER))
    videos = (found["modes"]["plain"]["kinds"]["t2v"].items() for found in (results, on_h100))
    seconds, of_h100 = (
        ", ".join(f"{job['seconds']['generate']:.2f} s at {size}" for size, job in sizes) for sizes in videos
    )
    published = modes_page.NVIDIA["vLLM-Omni, 16-bit"]
    return (
        f"| generator, the shape of Cosmos3-Nano with random weights, {results['frames']} frames, one H200, "
        f"{results['engine']} | {seconds}, without the encoding of the file; on an H100 {of_h100}, where NVIDIA's own "
        f"figures are {published[0]} and {published[1]} s |"
    )


def _diffusers() -> str:
    results = stored(accelerations_page.OURS)
    exact, lossy = (
        ", ".join(f"{rows[name]['seconds']:.2f} s at {size}" for size, rows in results["sizes"].items() if name in rows)
        for name in (accelerations_page.DEFAULT, "all")
    )
    framework = modes_page.NVIDIA["Cosmos Framework, FP8"]
    return (
        f"| the same, one H100, Diffusers {results['diffusers']} | {exact}; with all lossy modes, which skip "
        f"{70 - accelerations_page.COMPUTED} of 70 passes, {lossy}; NVIDIA's own figures for its Framework in FP8 are "
        f"{framework[0]}, {framework[1]} and {framework[2]} s |"
    )


def _kills() -> str:
    rows = {row.name: row for row in kept(KILLS).measured}
    [killed] = [row for name, row in rows.items() if "were killed" in name]
    [again] = [row for name, row in rows.items() if name.startswith("inferences of")]
    return f"| {killed.name}, on the local cloud | {killed.value}; inferences of answered items: {again.value} |"


def _services() -> str:
    run, single = (
        sum(dollars for _, dollars in rows.values()) for rows in (runs_cost.run_rows(), runs_cost.single_rows())
    )
    return (
        "| AWS's services for a million files of a run, without GPUs: calls counted on the local cloud, times list "
        f"prices | ${run:.0f}; ${single:.0f} for files with an execution of their own |"
    )


def _simulation() -> str:
    results = stored(RESULTS)
    [run] = [run for run in results["runs"] if run["max_workers"] == WORKERS]
    return (
        f"| {run['name']} of one L40S each, 2 s to 10 min long, simulated with the deployed functions and the time of "
        "a clip in an earlier vLLM, which lies within the range measured with the vLLM that ships | "
        f"{run['finished_at'] / 3600:.1f} hours, ${run['dollars']:,.0f}, {run['idle_share']:.1%} idle |"
    )


def _console() -> str:
    rows = {row.name: row.value for row in kept("console").measured}
    [first] = [value for name, value in rows.items() if name.startswith("first of")]
    [search] = [value for name, value in rows.items() if name.startswith("rows of a search")]
    return f"| the console over 100,000 documents | first on the screen after {first}; search: {search} |"
