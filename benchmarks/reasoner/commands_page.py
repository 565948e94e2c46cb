"""Write the part of the reasoner's section that lists its commands, and the results that they made."""

from pathlib import Path

from benchmarks import kernels_page
from benchmarks.paragraphs import filled
from benchmarks.reasoner import gpu_decoding, large_page, start_page
from benchmarks.reasoner.gpu_results import (
    EIGHT,
    FP8_THREE_TURNS,
    FP8_TURNS,
    FULL_GPU,
    HOSTS_WITH_H200,
    LARGE_ON_H200,
    NEWEST,
    ON_H100,
    ON_H200,
    PREPARED_ON_H100,
    PREPARED_ON_H200,
    PROCESSES,
    QUEUED_ON_H200,
    RESULT,
    SHIPPED_ON_H200,
    STEPS,
    TWO_GPUS,
)
from benchmarks.results import commands_table, link

_GPU = "benchmarks.reasoner.gpu --work FOLDER --into FILE"
_COMPARISON = "benchmarks.reasoner.comparison --shape 2b --work FOLDER --into FILE"
_COMMANDS: tuple[tuple[str, str, tuple[Path, ...]], ...] = (
    (
        "benchmarks.reasoner.turns --work FOLDER --into FILE",
        "our worker in turn with raw vLLM, 16-bit, three rounds",
        (SHIPPED_ON_H200,),
    ),
    (
        "benchmarks.reasoner.turns --work FOLDER --into FILE --lossy fp8,fp8Cache",
        "the same in FP8 on the sixth host, in a run of two rounds and one of another; on the fifth host one round is "
        "there, because the machine's time ended in the second",
        (FP8_THREE_TURNS, FP8_TURNS),
    ),
    (f"{_GPU} --passes 0 --large 96", "clips of 1920 x 1080 on the first host", (SHIPPED_ON_H200,)),
    (
        f"{_GPU} --passes 0 --steady 1000 --large 288",
        "16-bit and more of such clips on the sixth host's other GPU",
        (LARGE_ON_H200,),
    ),
    (
        f"{_GPU} --name tokens8192 --passes 0 --steady 1000 -- --max-num-batched-tokens 8192",
        "shorter steps on that GPU",
        (LARGE_ON_H200,),
    ),
    (
        f"{_GPU} --name fp8Cache --compare --passes 0 --steady 1000 --lossy fp8,fp8Cache",
        "FP8 on the first host",
        (SHIPPED_ON_H200,),
    ),
    (
        "benchmarks.reasoner.gpu_decoding --work FOLDER --into FILE",
        "sampling of large clips without a model",
        (gpu_decoding.RESULT,),
    ),
    (
        f'{_COMPARISON} --steps raw --passes 2 --levels "" --clips 1000',
        "raw vLLM with 1,000 clips; on the second host with `--passes 1`",
        (ON_H200, PROCESSES, HOSTS_WITH_H200),
    ),
    (f'{_COMPARISON} --steps process --processes 2 --levels ""', "a process of raw vLLM for each clip", (PROCESSES,)),
    (
        f"{_GPU} --compare --passes 1 --steady 1000 --large 96",
        "our worker in 16-bit. The second and the third host had no `--compare`, the second no pass but that of 1,000 "
        "clips, and the third 16 cores and one of two GPUs (`taskset`, `CUDA_VISIBLE_DEVICES`). Some of the others had "
        "48 large clips, those with an H100 24 or none",
        (HOSTS_WITH_H200, ON_H200, PROCESSES, large_page.CORES, large_page.EXACT, ON_H100, NEWEST),
    ),
    (
        f"""{_GPU} --name graphs --passes 0 --steady 1000 -- --compilation-config '{{"compile_mm_encoder": true}}'""",
        "all of vLLM's CUDA graphs",
        (ON_H200,),
    ),
    (
        f"{_GPU} --compare --plain --steady 1000 --large 32 --profile",
        "our patches and those that vLLM cuts",
        (RESULT,),
    ),
    (
        f"{_GPU} --compare --steady 1000 --prepared 1000,16,8,4",
        "how many jobs are prepared at once, with decoding in threads",
        (PREPARED_ON_H100, QUEUED_ON_H200),
    ),
    (
        f"{_GPU} --clips 1000 --passes 0 --steady 0 --prepared 16,8,24,8,16",
        "the same since processes prepare the requests: the fourth host",
        (PREPARED_ON_H200,),
    ),
    (f"{_COMPARISON} --steps start", "starts of a worker", start_page.STARTS),
    (
        "benchmarks.stack_samples SAMPLES --hertz 50 --below EngineCoreProc.__init__ --at source_to_code,capture_model",
        "sums of the samples of a start",
        (start_page.PROFILE,),
    ),
    (
        f"{_GPU} --name fp8Cache --compare --passes 1 --steady 1000 --large 24 --lossy fp8,fp8Cache",
        "FP8 on H100 and, of earlier commits, on H200",
        (large_page.IN_FP8, ON_H100, NEWEST, ON_H200, QUEUED_ON_H200),
    ),
    (
        f'{_COMPARISON} --steps raw --passes 1 --levels ""',
        "raw vLLM with 256 clips",
        (RESULT, QUEUED_ON_H200),
    ),
    (f"{_GPU} --compare --kernels 128", "kernels in 16-bit", (kernels_page.REASONER,)),
    (
        f"{_GPU} --name fp8 --compare --kernels 128 --lossy fp8",
        "kernels in FP8",
        (kernels_page.REASONER,),
    ),
    (
        "benchmarks.reasoner.full_gpu --free 24,3 --work FOLDER --into FILE",
        "a GPU whose memory others hold",
        (FULL_GPU,),
    ),
    (f"{_GPU} --shape 8b --compare --passes 1 --steady 500", "the 8B", (EIGHT,)),
    (
        f"{_GPU} --shape 32b --compare --passes 1 -- --load-format dummy",
        "the 32B, on two GPUs",
        (TWO_GPUS,),
    ),
)


def text() -> str:
    """Return what was not measured, how the commands ran, and the commands."""
    missing = filled(
        "Not measured with this release: raw vLLM on an H100, the 8B on an H100, and NVIDIA's own "
        "checkpoints, also those in FP8: all weights are random.",
    )
    about = filled(
        "The packages of the image's lock were copied to each machine, beside the repository, and the commands ran "
        "there. Where several commands have one result, their files were merged, and the texts of answers left out. "
        "The commands of the six hosts of the first table, the starts, those of commits 924b67c3 and 62279bc6, and "
        "those of the last three rows ran with `CUDA_HOME=/none`, so that vLLM did not find CUDA's compiler. The "
        "starts of the older commit ran beside those of the newer one, by its own benchmark, whose question without a "
        "clip had been replaced by that of the newer one. The profile of a start was sampled with `py-spy record "
        f"--subprocesses --nonblocking --rate 50 --format raw`. No command makes {link(STEPS)}: it came from a "
        "temporary change of our server's program, which is not in the repository.",
    )
    return "\n".join([missing, "", about, "", commands_table(_COMMANDS)])
