"""Write the part of the generator's section about two GPUs, with PhyAI and vLLM-Omni."""

from typing import Any

from benchmarks.generator import phyai_page
from benchmarks.generator.mode_results import EXACT, HEAD, generation_seconds, read, rows
from benchmarks.paragraphs import filled, listed
from benchmarks.results import FOLDER

PHYAI = FOLDER / "generator-phyai-nano-two-gpus.json"  # two H100, as the next one
OMNI = FOLDER / "generator-modes-nano-two-gpus.json"
OMNI_ON_H200 = FOLDER / "generator-modes-nano-two-h200.json"


def text(one: dict[str, Any]) -> str:
    """Return the jobs of two GPUs; `one` are vLLM-Omni's results on one H200."""
    phyai, omni, on_h200 = (read(path) for path in (PHYAI, OMNI, OMNI_ON_H200))
    return f"""{_of_h100(phyai, omni, read(phyai_page.RESULT))}

{HEAD}
{rows(omni, "vLLM-Omni, ")}
{rows(phyai, "PhyAI, ")}

{_of_h200(on_h200, one)}

{HEAD}
{rows(on_h200, "vLLM-Omni, ")}"""


def _of_h100(phyai: dict[str, Any], omni: dict[str, Any], phyai_on_one: dict[str, Any]) -> str:
    """Introduce the table of two H100, with how much faster these are than one."""
    small, large = EXACT
    cfg, omni_cfg = ([generation_seconds(results, "cfg2", size) for size in EXACT] for results in (phyai, omni))
    one = [generation_seconds(phyai_on_one, "plain", size) for size in EXACT]
    split, large_split = (generation_seconds(phyai, "tp2", size) for size in EXACT)
    return filled(
        f"On two GPUs, measured {phyai['day']} on {phyai['machine']}, two hosts of the same kind, while "
        "the other GPUs ran benchmarks; the jobs are those of the tables above. With cfg 2 each GPU computes one of "
        f"the two passes of a step. PhyAI is {one[0] / cfg[0]:.2f} and {one[1] / cfg[1]:.2f} times "
        f"as fast with it as on one GPU, at {small} and {large}. With tp 2, which splits each layer, it needs "
        f"{split / one[0]:.2f} times as long as on one GPU at {small}, and at {large} it is {one[1] / large_split:.2f} "
        "times as fast; each GPU holds about six tenths of the memory. vLLM-Omni takes "
        f"{omni_cfg[0]:.2f} and {omni_cfg[1]:.2f} s with cfg 2; the table of one H100 has its times there, of "
        "another run. Videos of 832x480 were the first of their size. PhyAI's figures at 320x192 on one GPU vary: in "
        "that run, beside other benchmarks, a video from an image took "
        f"{phyai_on_one['modes']['plain']['kinds']['i2v'][small]['seconds']['generate']:.2f} s with as many steps.",
    )


def _of_h200(two: dict[str, Any], one: dict[str, Any]) -> str:
    """Introduce vLLM-Omni's table of two H200, with how much faster these are than the one of another run."""
    sizes = one["modes"]["plain"]["kinds"]["t2v"]
    split, sharded = (
        listed((generation_seconds(one, "plain", size) / generation_seconds(two, mode, size) for size in sizes), 2)
        for mode in ("tp2", "cfg2Hsdp")
    )
    return filled(
        f"vLLM-Omni's other ways to use two GPUs, measured {two['day']} on {two['machine']}. At {' and '.join(sizes)} "
        f"tp 2 is {split} times as fast as the one H200 of the first table, and cfg 2 with HSDP {sharded} times. That "
        "was another run, in which each video had been made once before; here only the smaller one had. With HSDP each "
        "GPU stores half of each layer's weights, and fetches the other half from the other GPU when it computes the "
        "layer; no plan of ours uses it. cfg 2 without it was not measured on H200, so what HSDP costs is not known.",
    )
