"""Write the part of the reasoner's section about clips of 1920 x 1080."""

from typing import Any

from benchmarks.paragraphs import filled
from benchmarks.reasoner import gpu_decoding
from benchmarks.results import FOLDER, stored

EXACT = FOLDER / "reasoner-gpu-2b-h100.json"  # 16-bit
IN_FP8 = FOLDER / "reasoner-gpu-2b-h100-fp8.json"
CORES = FOLDER / "reasoner-large-cores.json"  # what the cores do for such clips, on an H200
DECODERS = ("16 cores, CPU", "16 cores, GPU", "4 cores, GPU")
_HALF = 50  # percent of a second


def text(h200: dict[str, Any]) -> str:
    """Return the rates, those of a run on an H200 among them, and those of sampling such clips without a model."""
    return f"""{_rates(stored(EXACT), stored(IN_FP8), h200)}

{_gpu_decoding(stored(gpu_decoding.RESULT))}"""


def busy_from(one: dict[str, Any]) -> int:
    """Return after how many seconds of a pass the GPU was first busy for more than half of one."""
    return next(second for second, busy in enumerate(one["gpuBusyBySecond"]) if (busy or 0) > _HALF)


def _rates(exact: dict[str, Any], found: dict[str, Any], h200: dict[str, Any]) -> str:
    """Say what limits large clips, by the results of a run in 16-bit and of one in FP8, and of one on an H200."""
    in_fp8, all_cores = found["fp8Cache"], exact["bf16"]["1080p, 16 cores, CPU"]
    cpu, gpu, few = (in_fp8[f"1080p, {decoder}"]["perSecond"] for decoder in DECODERS)
    on_h200 = [h200["bf16"][f"1080p, {decoder}"] for decoder in DECODERS]
    many, four = (one["gpuSteady"]["busy"] for one in on_h200[1:])
    return filled(
        "The clips of 1920 x 1080 (H.264, 30 frames per second, ten seconds, 7 Mbit/s, sampled at 4 frames per second) "
        f"are decoded on the CPU, by eight threads; on a host with an H100 ({exact['day']}) that took "
        f"{all_cores['phases']['decode']:.1f} s for each, and limited the rate. `gpuDecode` leaves it to the GPU's "
        f"decoder. With `fp8` and `fp8Cache`, in an earlier run ({found['day']}), a worker answered {cpu:.2f} of them "
        f"per second without it and {gpu:.2f} with it on 16 cores, and {few:.2f} with it on four, which is "
        f"{few / cpu:.2f} of what 16 cores do without. On an H200 in 16-bit ({h200['day']}, {on_h200[0]['clips']} "
        f"clips) a worker answered {on_h200[0]['perSecond']:.2f} without it and {on_h200[1]['perSecond']:.2f} with it "
        f"on 16 cores, and {on_h200[2]['perSecond']:.2f} with it on four. On four the first second of which the GPU "
        f"was busy for more than half came {busy_from(on_h200[2]) - busy_from(on_h200[1])} s later than on 16, and "
        f"the GPU was busy for {four:.0f} % of the "
        f"middle 70 %, with 16 for {many:.0f} %. {_of_cores(stored(CORES))}",
    )


def _of_cores(found: dict[str, Any]) -> str:
    """Say what the cores do for a large clip that the GPU decodes, and how much four of them can do."""
    many, four = (found["bf16"][f"1080p, {cores} cores, GPU"] for cores in (16, 4))
    seconds = {name: cpu / many["clips"] for name, cpu in many["cpuSeconds"].items()}
    busy = sum(four["cpuSeconds"].values()) / four["seconds"]
    samples = found["profile"]
    shares = {
        "scale frames": samples[";_scaled"] - samples["decode_at_times"],
        "open files": samples["open_video"],
        "decode": samples["decode_at_times"],
        "read the times of frames": samples["_packet_times"],
        "write frames": samples["write_clip"],
    }
    listed = ", ".join(f"{count / samples['all']:.0%} {does}" for does, count in shares.items())
    return (
        f"In another such run ({found['day']}) all processes together took {sum(seconds.values()):.2f} s of CPU time "
        f"for each clip with 16 cores: the worker {seconds['worker']:.2f}, vLLM's server {seconds['server']:.2f} and "
        f"its engine {seconds['engine']:.2f}. On four, {four['perSecond']:.2f} clips a second kept {busy:.1f} of them "
        "busy on average, so the cores alone do not explain the rate. Of what the worker's threads did then, in a "
        f"profile, {listed}."
    )


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
