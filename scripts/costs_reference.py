"""Write the tables of `docs/costs.md`: what a clip and a video cost on each instance type. `make docs` runs this."""

import sys
from pathlib import Path

from tables import filled, line, table

from cosmos_batch.catalogue.generation import SIZES, Mode, Resolution
from cosmos_batch.catalogue.hardware import GPUS, INSTANCE_TYPES, GpuKind
from cosmos_batch.catalogue.pipelines import Pipeline, pipeline_named
from cosmos_batch.planning.pace import times_h100, weight_of_frames
from cosmos_batch.planning.type_costs import ItemCost, item_cost

TARGET = Path(__file__).resolve().parent.parent / "docs" / "costs.md"
REASONERS = ("cosmos-reason2-2b", "cosmos-reason2-8b", "cosmos-reason2-32b")
VIDEOS: tuple[tuple[str, Mode, Resolution], ...] = (
    ("cosmos3-edge", "i2v", "480p"),
    ("cosmos3-nano", "t2v", "480p"),
    ("cosmos3-nano", "t2v", "720p"),
)


def page(text: str) -> str:
    """Return the page with its tables regenerated."""
    return filled(text, {"clips": _clips(), "videos": _videos(), "cheapest": _cheapest(), "ratios": _ratios()})


def _clips() -> str:
    pipelines = [_named(name) for name in REASONERS]
    sizes = [one.model_size for one in pipelines]
    rows = []
    for name, instance in INSTANCE_TYPES.items():
        costs = [item_cost(one, name) for one in pipelines]
        if any(costs):
            busy = [_dollars(cost.busy_dollars * 1000) if cost else "" for cost in costs]
            sparse = [_dollars(cost.sparse_dollars) if cost else "" for cost in costs]
            rows.append(line(f"`{name}`", f"{instance.gpus} x {instance.gpu}", instance.vcpus, *busy, *sparse))
    heads = [f"{size}: 1,000 clips" for size in sizes] + [f"{size}: one clip an hour" for size in sizes]
    return table(line("type", "GPUs", "vCPUs", *heads), rows)


def _videos() -> str:
    videos = [(_named(name), mode, tier, _weight(name, mode, tier)) for name, mode, tier in VIDEOS]
    rows = []
    for name, instance in INSTANCE_TYPES.items():
        costs = [item_cost(pipeline, name, weight) for pipeline, _, _, weight in videos]
        if any(costs):
            cells = [cell for cost in costs for cell in _video_cells(cost)]
            rows.append(line(f"`{name}`", f"{instance.gpus} x {instance.gpu}", *cells))
    heads = [
        f"{pipeline.model_size} `{mode}` {tier}: {what}"
        for pipeline, mode, tier, _ in videos
        for what in ("seconds", "a video", "one an hour")
    ]
    return table(line("type", "GPUs", *heads), rows)


def _video_cells(cost: ItemCost | None) -> tuple[str, str, str]:
    if cost is None:
        return "", "", ""
    return f"{cost.seconds:.0f}", _dollars(cost.busy_dollars), _dollars(cost.sparse_dollars)


def _cheapest() -> str:
    """Return the type that is the cheapest for many clips of each model, and how it stands for one clip an hour."""
    rows = []
    for pipeline in map(_named, REASONERS):
        costs = {name: cost for name in INSTANCE_TYPES if (cost := item_cost(pipeline, name))}
        by_sparse = sorted(costs, key=lambda name: costs[name].sparse_dollars)
        best = min(costs, key=lambda name: costs[name].busy_dollars)
        rows.append(
            line(
                pipeline.model_size,
                f"`{best}`, {_dollars(costs[best].busy_dollars * 1000)}",
                _dollars(costs[best].sparse_dollars),
                f"{by_sparse.index(best) + 1} of {len(costs)}",
                f"`{by_sparse[0]}`, {_dollars(costs[by_sparse[0]].sparse_dollars)}",
            )
        )
    head = "| model | cheapest for 1,000 clips | the same, one an hour | its place | cheapest for one an hour |"
    return table(head, rows)


def _ratios() -> str:
    rows = [
        line(
            gpu,
            f"{times_h100(_named('cosmos-reason2-2b'), gpu):.2f}",
            f"{times_h100(_named('cosmos3-nano'), gpu):.2f}",
            _source(kind),
        )
        for gpu, kind in GPUS.items()
    ]
    return table("| GPU | reasoners: times an H100 | generators: times an H100 | source |", rows)


def _source(kind: GpuKind) -> str:
    """Return where the ratios of a kind of GPU come from. NVIDIA measured only videos."""
    if kind.clip_times_h100 is not None:
        return "measured here"
    return "NVIDIA, for generators" if kind.video_times_h100 is not None else "formula"


def _weight(pipeline: str, mode: Mode, tier: Resolution) -> float:
    """Return the weight of a video at 16:9 with the model's own length, steps and guidance."""
    rules = _named(pipeline).rules(mode)
    megapixels = SIZES[tier]["16:9"].area / 1e6
    return weight_of_frames(megapixels, rules.frames, rules.steps, guided=rules.guidance_scale != 1)


def _named(name: str) -> Pipeline:
    pipeline = pipeline_named(name)
    assert pipeline is not None
    return pipeline


def _dollars(amount: float) -> str:
    return f"${amount:.3f}" if amount < 1 else f"${amount:.2f}"


if __name__ == "__main__":
    sys.exit(TARGET.write_text(page(TARGET.read_text(encoding="utf-8")), encoding="utf-8") and 0)
