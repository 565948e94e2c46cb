"""Write the tables of `docs/generator.md`: modes, engines, sizes, parameters. `make docs` runs this."""

import math
import sys
from pathlib import Path

from configuration_reference import row
from tables import filled, line, table

from cosmos_batch.catalogue.engines import ENGINES, GENERATOR_ABILITIES
from cosmos_batch.catalogue.generation import ASPECT_RATIOS, DOMAINS, FRAME_LIMIT, MODES, SIZES
from cosmos_batch.catalogue.generator_abilities import GeneratorAbilities
from cosmos_batch.catalogue.pipelines import PIPELINES
from cosmos_batch.contract.generation.parameters import GUIDANCE_LIMIT, GenerationParameters

TARGET = Path(__file__).resolve().parent.parent / "docs" / "generator.md"
# The GPUs on which each engine made something here, by docs/benchmarks.md and docs/generator-engines.md.
_RUN_ON = {
    "vllm-omni": "H100 and H200; `v2v`, `transfer` and actions on H200",
    "cosmos-framework": "**never run**: its packages could not be fetched",
    "diffusers": "H100 and H200; `v2v`, `transfer` and actions on H200",
    "phyai": "H100; on an H200 only restarts",
    "nim": "**never run**: its image could not be fetched",
}
_BY_ENDPOINT = "as its server was started"
GENERATORS = [pipeline for pipeline in PIPELINES if pipeline.surface == "generator"]


def page(text: str) -> str:
    """Return the page with its tables regenerated."""
    tables = {
        "pipelines": _pipelines(),
        "modes": _modes(),
        "engines": _engines(),
        "sizes": _sizes(),
        "parameters": table("| parameter | type | default | meaning |", _parameters()),
        "domains": _domains(),
    }
    return filled(text, tables)


def _pipelines() -> str:
    rows = [
        line(f"`{pipeline.id}`", f"`{pipeline.config_key}`", pipeline.model, _names(pipeline.modes))
        for pipeline in GENERATORS
    ]
    return table("| pipeline | in the configuration | model | modes |", rows)


def _modes() -> str:
    rows = [
        line(
            f"`{name}`",
            mode.title,
            " or ".join(mode.inputs) + (", or none" if mode.input_optional else "") if mode.inputs else "none",
            "yes" if mode.sound else "no",
            mode.steps,
            f"{mode.guidance_scale:g}",
            f"{mode.flow_shift:g}",
        )
        for name, mode in MODES.items()
    ]
    return table("| mode | task | input | sound | `steps` | `guidanceScale` | `flowShift` |", rows)


def _engines() -> str:
    rows = [
        line(
            f"`{name}`, an external server" if ENGINES[name].by_endpoint else f"`{name}`",
            "all" if set(engine.modes) == set(MODES) else _names(engine.modes),
            _names(engine.sound) or "none",
            *([_BY_ENDPOINT] * 3 if ENGINES[name].by_endpoint else _deployment(engine)),
            _limits(engine),
            _RUN_ON[name],
        )
        for name, engine in GENERATOR_ABILITIES.items()
    ]
    return table(
        "| engine | modes | sound with | guardrails | shares a job by | offload | limits | run here on |", rows
    )


def _deployment(engine: GeneratorAbilities) -> list[str]:
    return [_guardrails(engine), ", ".join(engine.axes) or "one GPU", "yes" if engine.offload else "no"]


def _guardrails(engine: GeneratorAbilities) -> str:
    if not engine.guardrails:
        return "no"
    return f"yes, not with {_names(engine.unguarded)}" if engine.unguarded else "yes"


def _limits(engine: GeneratorAbilities) -> str:
    limits = [
        f"`guidanceScale` of at least {engine.guidance_least:g}" if engine.guidance_least else "",
        f"`guidanceScale` of at most {engine.guidance_limit:g}" if engine.guidance_limit < GUIDANCE_LIMIT else "",
        f"`fps` of at least {engine.fps_least:g}" if engine.fps_least else "",
        f"`fps` of at most {engine.fps_limit:g}" if engine.fps_limit < math.inf else "",
        f"`steps` of at most {engine.steps_limit}" if engine.steps_limit else "",
        f"at least {engine.fewest_frames} frames without actions" if engine.fewest_frames else "",
        "" if engine.long_transfers else "no transfer longer than other videos of its size",
        f"only sizes of NVIDIA's table with {_names(engine.table_sizes)}" if engine.table_sizes else "",
        f"no sizes but those of {_names(engine.tiers)}" if len(engine.tiers) < len(SIZES) else "",
        "only whole frame rates" if engine.whole_fps else "",
        "" if engine.weights else "no different weights of controls",
        f"`flowShift` of {engine.flow_shift:g} only" if engine.flow_shift else "",
        f"predicts no actions of {', '.join(engine.forward_only)}" if engine.forward_only else "",
        _domains_of(engine),
        "with tp all GPUs share both the weights and the job" if engine.exclusive_axes else "",
    ]
    return "; ".join(limit for limit in limits if limit)


def _domains_of(engine: GeneratorAbilities) -> str:
    """Return which domains it lacks, or which it has if these are fewer."""
    known = [name for name in DOMAINS if name not in engine.unknown_domains]
    if len(known) < len(engine.unknown_domains):
        return f"only the domains {', '.join(known)}"
    return f"without the domains {', '.join(engine.unknown_domains)}" if engine.unknown_domains else ""


def _sizes() -> str:
    rows = [line(ratio, *(sizes[ratio] for sizes in SIZES.values())) for ratio in ASPECT_RATIOS]
    frames = [str(FRAME_LIMIT[tier]) if tier in FRAME_LIMIT else "1" for tier in SIZES]
    return table(line("`aspectRatio`", *(f"`{tier}`" for tier in SIZES)), [*rows, line("most frames", *frames)])


def _parameters() -> list[str]:
    return [row(field) for field in GenerationParameters.model_fields.values()]


def _domains() -> str:
    rows = [
        line(f"`{name}`", " or ".join(map(str, domain.widths)), domain.chunk_size, f"{domain.fps:g}")
        for name, domain in DOMAINS.items()
    ]
    return table("| `domainName` | numbers in an action | `actionChunkSize` | `fps` |", rows)


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.exit(TARGET.write_text(page(TARGET.read_text(encoding="utf-8")), encoding="utf-8") and 0)
