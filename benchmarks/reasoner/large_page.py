"""Write the part of the reasoner's section about clips of 1920 x 1080."""

from typing import Any

from benchmarks.paragraphs import filled, listed
from benchmarks.reasoner import gpu_decoding
from benchmarks.reasoner.gpu_results import cpu_seconds_of_clip
from benchmarks.results import FOLDER, stored
from cosmos_batch.media.gpu_decoding import AT_ONCE

EXACT = FOLDER / "reasoner-gpu-2b-h100.json"  # 16-bit
IN_FP8 = FOLDER / "reasoner-gpu-2b-h100-fp8.json"
CORES = FOLDER / "reasoner-large-cores.json"  # what the cores do for such clips, on an H200
DECODERS = ("16 cores, CPU", "16 cores, GPU", "4 cores, GPU")
_HALF = 50  # percent of a second
_PARTS = {
    "probe": "reading the times of all frames, which a job does twice; with b17eb036 FFmpeg decoded a frame for it",
    "openAndDecode": "opening the file where FFmpeg decodes a frame for it, as with b17eb036",
    "open": "opening the file without, as now",
    "sample": "sampling: opening, decoding by the GPU, and scaling",
    "scaleInOneStep": "scaling the sampled frames in one step, as with b17eb036",
    "scaleInTwoSteps": "scaling them [by way of 4:4:4](#sampling-a-cameras-clip), as now",
    "write": "writing and hashing the frames",
}


def text(shipped: dict[str, Any], h200: dict[str, Any]) -> str:
    """Return the rates, those of two runs on H200 among them, and those of sampling such clips without a model."""
    return f"""{_rates(stored(EXACT), stored(IN_FP8))}

{_on_h200(shipped, shipped["bf16"])}

{_on_h200(h200, h200["otherGpu"]["bf16"])}

{_of_cores(shipped, h200, stored(CORES), stored(gpu_decoding.RESULT))}

{_gpu_decoding(stored(gpu_decoding.RESULT))}"""


def rates(session: dict[str, Any], decoder: str) -> list[float]:
    """Return the clips per second of each pass over large clips with this decoder and number of cores."""
    return [one["perSecond"] for one in _passes(session, decoder)]


def shares_of_few_cores(session: dict[str, Any]) -> list[float]:
    """Return for each pass with four cores and the GPU's decoder its rate relative to that of one with sixteen.

    There may be more passes with sixteen; the last of them count for nothing.
    """
    _, many, few = (rates(session, decoder) for decoder in DECODERS)
    return [one / other for one, other in zip(few, many[: len(few)], strict=True)]


def _passes(session: dict[str, Any], decoder: str) -> list[dict[str, Any]]:
    return [session[step] for step in session if step.startswith(f"1080p, {decoder}")]


def busy_from(one: dict[str, Any]) -> int:
    """Return after how many seconds of a pass the GPU was first busy for more than half of one."""
    return next(second for second, busy in enumerate(one["gpuBusyBySecond"]) if (busy or 0) > _HALF)


def _rates(exact: dict[str, Any], found: dict[str, Any]) -> str:
    """Say what limits large clips, by the results of a run in 16-bit and of one in FP8 on hosts with an H100."""
    in_fp8, all_cores = found["fp8Cache"], exact["bf16"]["1080p, 16 cores, CPU"]
    cpu, gpu, few = (in_fp8[f"1080p, {decoder}"]["perSecond"] for decoder in DECODERS)
    return filled(
        "The clips of 1920 x 1080 (H.264, 30 frames per second, ten seconds, 7 Mbit/s, sampled at 4 frames per second) "
        f"were decoded on the CPU, by eight threads; on a host with an H100 ({exact['day']}) that took "
        f"{all_cores['phases']['decode']:.1f} s for each, and limited the rate. `gpuDecode` leaves it to the GPU's "
        f"decoder. With `fp8` and `fp8Cache`, in an earlier run ({found['day']}), a worker answered {cpu:.2f} of them "
        f"per second without it and {gpu:.2f} with it on 16 cores, and {few:.2f} with it on four, which is "
        f"{few / cpu:.2f} of what 16 cores do without.",
    )


def _on_h200(run: dict[str, Any], session: dict[str, Any]) -> str:
    """Return the rates of a run on an H200 in 16-bit, and where four cores lose against sixteen."""
    cpu, gpu, few = (listed(rates(session, decoder), 2) for decoder in DECODERS)
    many, four = (_passes(session, decoder) for decoder in DECODERS[1:])
    later = [busy_from(one) - busy_from(other) for one, other in zip(four, many[: len(four)], strict=True)]
    busy = [listed((one["gpuSteady"]["busy"] for one in passes), 0) for passes in (four, many)]
    of_that = "of the first of these" if len(four) < len(many) else "of that"
    return filled(
        f"On an H200 in 16-bit ({run['day']}, commit {run['commit']}, {many[0]['clips']} clips) a worker answered "
        f"{cpu} a second without it and {gpu} with it on 16 cores, and {few} with it on four: "
        f"{listed(shares_of_few_cores(session), 3)} {of_that}. On four the first second of which the GPU was busy for "
        f"more than half came {listed(later, 0)} s later than on 16, and the GPU was busy for {busy[0]} % of the "
        f"middle 70 %, with 16 for {busy[1]} %.",
    )


def _of_cores(shipped: dict[str, Any], h200: dict[str, Any], earlier: dict[str, Any], sampling: dict[str, Any]) -> str:
    """Say what the cores do for a large clip that the GPU decodes, and what takes less of them than before."""
    now, then = (_passes(session, DECODERS[1])[0] for session in (shipped["bf16"], h200["otherGpu"]["bf16"]))
    many, few = (earlier["bf16"][f"1080p, {decoder}"] for decoder in DECODERS[1:])
    about = filled(
        "Seconds of CPU time that all processes together took for each of these clips, with `gpuDecode` and 16 cores: "
        f"{_of_processes(now)} with commit {shipped['commit']}; {_of_processes(then)} with commit {h200['commit']}, on "
        f"another host; and {_of_processes(many)} with commit {earlier['commit']}, with which four cores reached "
        f"{few['perSecond'] / many['perSecond']:.2f} of sixteen ({few['clips']} clips). vLLM is the same program in "
        "all of them, so a part of the difference is the hosts'. One clip alone, in one thread, took these seconds of "
        "a core, on two hosts with an H200:",
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
    of_clip = cpu_seconds_of_clip(one)
    return (
        f"{sum(of_clip.values()):.2f} ({of_clip['worker']:.2f} the worker, {of_clip['server']:.2f} vLLM's server, "
        f"{of_clip['engine']:.2f} its engine)"
    )


def _gpu_decoding(found: dict[str, Any]) -> str:
    """Return how fast the GPU's decoder samples clips without a model, in several numbers of threads."""
    frames, of = found["frames"], found.get("ratesMeasured", found)
    about = filled(
        f"The frames of the GPU are the same to the last bit as those of the CPU in {frames['same']} of "
        f"{frames['clips']} clips compared ({found['day']}, commit {found['commit']}). Opening a clip and scaling its "
        f"frames is left to the cores. Measured {of['day']} on {of['machine']}, commit {of['commit']}: "
        f"{of['clips']} clips, sampled without a model and written to memory, while a benchmark ran on the host's "
        f"other GPU and cores. A worker with `gpuDecode` has {AT_ONCE} threads, or half of its cores if that is more.",
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
