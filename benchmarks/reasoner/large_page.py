"""Write the part of the reasoner's section about clips of 1920 x 1080."""

from typing import Any

from benchmarks.paragraphs import filled
from benchmarks.reasoner import gpu_decoding
from benchmarks.reasoner.gpu_results import LARGE_ON_H200, busy_seconds, cpu_parts, cpu_seconds_of_clip
from benchmarks.results import FOLDER, stored
from cosmos_batch.media.decoding import DECODER_THREADS
from cosmos_batch.media.gpu_decoding import AT_ONCE

EXACT = FOLDER / "reasoner-gpu-2b-h100.json"  # 16-bit
IN_FP8 = FOLDER / "reasoner-gpu-2b-h100-fp8.json"
CORES = FOLDER / "reasoner-large-cores.json"  # what the cores do for such clips, on an H200
DECODERS = ("16 cores, CPU", "16 cores, GPU", "4 cores, GPU")
_HALF = 50  # percent of a second
_FIRST = 8  # seconds of a pass
_PARTS = {
    "probe": "reading the times of all frames, which a job does twice; with b17eb036 FFmpeg decoded a frame for it",
    "openAndDecode": "opening the file where FFmpeg decodes a frame for it, as with b17eb036",
    "open": "opening the file without, as now",
    "sample": "sampling: opening, decoding by the GPU, and scaling",
    "scaleInOneStep": "scaling the sampled frames in one step, as with b17eb036",
    "scaleInTwoSteps": "scaling them [by way of 4:4:4](#sampling-a-cameras-clip), as now",
    "write": "writing and hashing the frames",
}


def text(shipped: dict[str, Any]) -> str:
    """Return the rates, those of a run on an H200 among them, and those of sampling such clips without a model."""
    return f"""{_rates(stored(EXACT), stored(IN_FP8))}

{_on_h200(shipped)}

{_of_a_longer_queue(stored(LARGE_ON_H200))}

{_of_cores(shipped, stored(CORES), stored(gpu_decoding.RESULT))}

{_gpu_decoding(stored(gpu_decoding.RESULT))}"""


def passes(session: dict[str, Any], *decoders: str) -> list[dict[str, Any]]:
    """Return a session's passes over large clips with these of `DECODERS`."""
    return [session[f"1080p, {decoder}"] for decoder in decoders]


def busy_from(one: dict[str, Any]) -> int:
    """Return after how many seconds of a pass the GPU was first busy for more than half of one."""
    return next(second for second, busy in enumerate(one["gpuBusyBySecond"]) if (busy or 0) > _HALF)


def _rates(exact: dict[str, Any], found: dict[str, Any]) -> str:
    """Say what limits large clips, by the results of a run in 16-bit and of one in FP8 on hosts with an H100."""
    [all_cores] = passes(exact["bf16"], DECODERS[0])
    cpu, gpu, few = (one["perSecond"] for one in passes(found["fp8Cache"], *DECODERS))
    return filled(
        "The clips of 1920 x 1080 (H.264, 30 frames per second, ten seconds, 7 Mbit/s, sampled at 4 frames per second) "
        f"were decoded on the CPU, by eight threads; on a host with an H100 ({exact['day']}) that took "
        f"{all_cores['phases']['decode']:.1f} s for each, and limited the rate. `gpuDecode` leaves it to the GPU's "
        f"decoder. With `fp8` and `fp8Cache`, in an earlier run ({found['day']}), a worker answered {cpu:.2f} of them "
        f"per second without it and {gpu:.2f} with it on 16 cores, and {few:.2f} with it on four, which is "
        f"{few / cpu:.2f} of what 16 cores do without.",
    )


def _on_h200(run: dict[str, Any]) -> str:
    """Return the rates of a run on an H200 in 16-bit, and where four cores lose against sixteen."""
    cpu, many, few = passes(run["bf16"], *DECODERS)
    busy = [one["gpuSteady"]["busy"] for one in (few, many)]
    at_first = sum(many["gpuBusyBySecond"][:_FIRST]) - sum(few["gpuBusyBySecond"][:_FIRST])
    return filled(
        f"On an H200 in 16-bit ({run['day']}, commit {run['commit']}, {many['clips']} clips) a worker answered "
        f"{cpu['perSecond']:.2f} a second without it and {many['perSecond']:.2f} with it on 16 cores, and "
        f"{few['perSecond']:.2f} with it on four: {few['perSecond'] / many['perSecond']:.3f} of that, or "
        f"{few['seconds'] - many['seconds']:.1f} s longer. The GPU was busy for {at_first / 100:.1f} s less of the "
        f"first {_FIRST}, in which four cores decode the first clips, and for {busy[0]:.0f} % of the middle 70 %, with "
        f"16 for {busy[1]:.0f} %; all in all for {busy_seconds(few) - busy_seconds(many):.1f} s longer, at a higher "
        "clock, since fewer clips were answered at once: half of the answers took up to "
        f"{few['phases']['generate']:.1f} s to generate, with 16 {many['phases']['generate']:.1f} s. The four cores "
        "themselves were busy for "
        f"{sum(few['cpuSeconds'].values()) / few['seconds'] / 4:.0%} of the time.",
    )


def _of_a_longer_queue(run: dict[str, Any]) -> str:
    """Return the rates of a run with more clips, in which the start of the queue counts for less."""
    cpu, many, few = passes(run["bf16"], *DECODERS)
    rates = [one["perSecond"] for one in (cpu, many, few)]
    busy, clock = ([one["gpuSteady"][of] for one in (cpu, many)] for of in ("busy", "megahertz"))
    return filled(
        f"Of {many['clips']} clips, on the sixth host ({run['day']}, commit {run['commit']}), it answered "
        f"{rates[0]:.2f} a second without it and {rates[1]:.2f} with it on 16 cores, and {rates[2]:.2f} with it on "
        f"four: {rates[2] / rates[1]:.3f} of sixteen with it, and {rates[2] / rates[0]:.3f} of sixteen without. The "
        "first clips, for which the GPU waits, count for less in a longer queue. With 16 cores decoding by the CPU is "
        "the faster way now that processes do it, though the GPU waits longer for the first clips. In the middle 70 % "
        f"it was busy for {busy[0]:.1f} % of the time without `gpuDecode` and for {busy[1]:.1f} % with it, at "
        f"{clock[0]:,.0f} and {clock[1]:,.0f} MHz: its limit of power lowers the clock where it computes more at once. "
        "So `gpuDecode` seems to take time from the GPU's other work. NVIDIA's library launches a kernel for each "
        "decoded frame ([GStreamer](https://gitlab.freedesktop.org/gstreamer/gstreamer/-/merge_requests/3605) found "
        "it), and the kernels of two processes take turns on a GPU; but this was not profiled.",
    )


def _of_cores(shipped: dict[str, Any], earlier: dict[str, Any], sampling: dict[str, Any]) -> str:
    """Say what the cores do for a large clip that the GPU decodes, and what takes less of them than before."""
    by_cpu, now = passes(shipped["bf16"], *DECODERS[:2])
    many, few = passes(earlier["bf16"], *DECODERS[1:])
    alone = shipped["bf16"]["1080p, same frames"]["cpu"]
    about = filled(
        "Seconds of CPU time that all processes together took for each of these clips, with `gpuDecode` and 16 cores: "
        f"{_of_processes(now)}; and {_of_processes(many)} with commit {earlier['commit']}, with which four cores "
        f"reached {few['perSecond'] / many['perSecond']:.2f} of sixteen ({few['clips']} clips). vLLM is the same "
        "program in both, so a part of the difference is the hosts'. Without `gpuDecode`, with 16 cores and commit "
        f"{shipped['commit']}: {_of_processes(by_cpu)}. Sampled alone, with {DECODER_THREADS} threads of FFmpeg, such "
        f"clips took {min(alone):.1f} to {max(alone):.1f} s each on the clock. With `gpuDecode` one clip alone, in one "
        "thread, took these seconds of a core, on two hosts with an H200:",
    )
    runs = (earlier["later"], sampling)
    rows = []
    for part, words in _PARTS.items():
        cells = [f"{run['phases'][part]:.3f}" for run in runs]
        rows.append(f"| {words} | {' | '.join(cells)} |")
    head = f"| | commit {runs[0]['commit']} | commit {runs[1]['commit']} |"
    return "\n".join([about, "", head, "|---|---|---|", *rows])


def _of_processes(one: dict[str, Any]) -> str:
    """Return the CPU seconds of a clip, as a sum, and how they are divided."""
    return f"{sum(cpu_seconds_of_clip(one).values()):.2f} ({cpu_parts(one, 2)})"


def _gpu_decoding(found: dict[str, Any]) -> str:
    """Return how fast the GPU's decoder samples clips without a model, in several numbers of threads."""
    frames = found["frames"]
    about = filled(
        f"The frames of the GPU are the same to the last bit as those of the CPU in {frames['same']} of "
        f"{frames['clips']} clips compared. Opening a clip and scaling its frames is left to the cores. Measured "
        f"{found['day']} on {found['machine']}, commit {found['commit']}: {found['clips']} clips, sampled without a "
        f"model and written to memory. A worker with `gpuDecode` has {AT_ONCE} threads, or half of its cores if that "
        "is more.",
    )
    rates = {(one["cores"], one["threads"]): one for one in found["rates"]}
    rows = []
    for threads in gpu_decoding.THREADS:
        cells = [
            f"{rates[cores, threads]['perSecond']:.2f} | {rates[cores, threads]['first']:.2f} s" for cores in (4, 16)
        ]
        rows.append(f"| {threads} | {' | '.join(cells)} |")
    head = "| threads | 4 cores: clips per second | first clip after | 16 cores: clips per second | first clip after |"
    return "\n".join([about, "", head, "|---|---|---|---|---|", *rows])
