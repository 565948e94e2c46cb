"""Write the tables of `docs/generator.md`: modes, engines, sizes, parameters. `make docs` runs this."""

import sys
from pathlib import Path

from configuration_reference import row
from tables import filled, line, table

from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.catalogue.generation import ASPECT_RATIOS, DOMAINS, FRAME_LIMIT, MODES, MODES_OF_PIPELINE, SIZES
from cosmos_batch.catalogue.generator_abilities import GeneratorAbilities
from cosmos_batch.catalogue.pipelines import PIPELINES
from cosmos_batch.contract.generation.parameters import GenerationParameters

TARGET = Path(__file__).resolve().parent.parent / "docs" / "generator.md"
GENERATORS = [one for one in PIPELINES if one.surface == "generator"]


def page(text: str) -> str:
    """The page with its tables as they are now."""
    tables = {
        "pipelines": _pipelines(),
        "modes": _modes(),
        "engines": _engines(),
        "sizes": _sizes(),
        "parameters": table("| parameter | type | default | what it is |", _parameters()),
        "domains": _domains(),
    }
    return filled(text, tables)


def _pipelines() -> str:
    rows = [
        line(f"`{one.id}`", f"`{one.config_key}`", one.model, _names(MODES_OF_PIPELINE[one.id])) for one in GENERATORS
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
    return table("| mode | it is | input | sound | `steps` | `guidanceScale` | `flowShift` |", rows)


def _engines() -> str:
    rows = [
        line(
            f"`{name}`",
            "all" if set(engine.modes) == set(MODES) else _names(engine.modes),
            _names(engine.sound),
            _guardrails(engine),
            ", ".join(engine.axes) or "one GPU",
            "yes" if engine.offload else "no",
            _limits(engine),
        )
        for name, engine in GENERATOR_ABILITIES.items()
    ]
    return table("| engine | modes | sound with | guardrails | shares a job by | offload | limits |", rows)


def _guardrails(engine: GeneratorAbilities) -> str:
    if not engine.guardrails:
        return "no"
    return f"yes, not with {_names(engine.unguarded)}" if engine.unguarded else "yes"


def _limits(engine: GeneratorAbilities) -> str:
    limits = [
        f"`guidanceScale` of {engine.guidance_least:g} at least" if engine.guidance_least else "",
        f"`guidanceScale` of {engine.guidance_limit:g} at most" if engine.guidance_limit < 20 else "",
        f"`fps` of {engine.fps_least:g} at least" if engine.fps_least else "",
        f"sizes of NVIDIA's table alone with {_names(engine.table_sizes)}" if engine.table_sizes else "",
        "whole frame rates" if engine.whole_fps else "",
        "" if engine.weights else "all controls weigh the same",
        f"`flowShift` {engine.flow_shift:g}" if engine.flow_shift else "",
        f"predicts no actions of {', '.join(engine.forward_only)}" if engine.forward_only else "",
        f"does not know the domains {', '.join(engine.unknown_domains)}" if engine.unknown_domains else "",
        "with tp all GPUs share weights and job" if engine.exclusive_axes else "",
    ]
    return "; ".join(limit for limit in limits if limit)


def _sizes() -> str:
    rows = [line(ratio, *(sizes[ratio] for sizes in SIZES.values())) for ratio in ASPECT_RATIOS]
    frames = [str(FRAME_LIMIT[tier]) if tier in FRAME_LIMIT else "1" for tier in SIZES]
    return table(line("`aspectRatio`", *(f"`{tier}`" for tier in SIZES)), [*rows, line("frames, at most", *frames)])


def _parameters() -> list[str]:
    return [row(field) for field in GenerationParameters.model_fields.values()]


def _domains() -> str:
    rows = [
        line(f"`{name}`", " or ".join(map(str, one.widths)), one.chunk_size, f"{one.fps:g}")
        for name, one in DOMAINS.items()
    ]
    return table("| `domainName` | numbers of an action | `actionChunkSize` | `fps` |", rows)


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.exit(TARGET.write_text(page(TARGET.read_text(encoding="utf-8")), encoding="utf-8") and 0)
