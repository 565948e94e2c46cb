"""The registry of engines: one row for each engine that this project has.

Everything that must know an engine by its name derives from this table: the names that a configuration accepts, the
container image of a pipeline, the class that a worker creates, and what a generator is refused for.
"""

from dataclasses import dataclass
from typing import Literal

from cosmos_batch.catalogue.pipelines import Surface

# One image for each engine environment, because the pinned dependencies of the engines conflict.
Image = Literal["reasoner", "diffusers", "omni", "framework", "phyai"]

AUTO = "auto"
"""Leaves the choice to the project: a reasoner's worker takes what fits its machine, a generator is `FASTEST`."""

ENDPOINT = "endpoint"
"""Means that no worker loads a model, but asks a server that the user runs."""

NO_DIALECT = "cosmos_batch.engines.serving.dialect:ServerDialect"


@dataclass(frozen=True)
class RegisteredEngine:
    """One engine.

    Attributes
    ----------
    name
        What a pipeline's `engine` says in the configuration.
    title
        Its name in messages and documentation.
    surface
        Whether it answers questions (`reasoner`) or makes media (`generator`).
    image
        The container image that has its libraries: a folder in `containers/`.
    class_path
        `package.module:Class` of the `Engine` that a worker creates.
    dialect
        `package.module:Class` of the `ServerDialect` that understands what its server prints and answers. Engines
        without a server have none.
    install_hint
        What a person does to install it outside of its image, as part of a sentence.
    """

    name: str
    title: str
    surface: Surface
    image: Image
    class_path: str
    dialect: str = NO_DIALECT
    install_hint: str | None = None


_ROWS = (
    RegisteredEngine(
        name="vllm",
        title="vLLM",
        surface="reasoner",
        image="reasoner",
        class_path="cosmos_batch.engines.reasoner.vllm.engine:VllmEngine",
        dialect="cosmos_batch.engines.vllm.dialect:VllmDialect",
        install_hint="on a machine with an NVIDIA GPU, `make vllm` does",
    ),
    RegisteredEngine(
        name="transformers",
        title="Transformers",
        surface="reasoner",
        image="reasoner",
        class_path="cosmos_batch.engines.reasoner.transformers.engine:TransformersEngine",
    ),
    RegisteredEngine(
        name="cosmos-framework-reasoner",
        title="Cosmos Framework",
        surface="reasoner",
        image="framework",
        class_path="cosmos_batch.engines.reasoner.cosmos_framework:FrameworkReasoner",
    ),
    # Generators, the fastest first by NVIDIA's own table (inference_benchmarks.md, June 2026: Nano, 720p, one H100:
    # 202, 208 and 240 s). There is no such figure for PhyAI.
    RegisteredEngine(
        name="vllm-omni",
        title="vLLM-Omni",
        surface="generator",
        image="omni",
        class_path="cosmos_batch.engines.generator.vllm_omni.engine:VllmOmniEngine",
        dialect="cosmos_batch.engines.generator.vllm_omni.dialect:VllmOmniDialect",
    ),
    RegisteredEngine(
        name="cosmos-framework",
        title="Cosmos Framework",
        surface="generator",
        image="framework",
        class_path="cosmos_batch.engines.generator.cosmos_framework.engine:FrameworkGenerator",
        dialect="cosmos_batch.engines.torchrun.group:GroupDialect",
    ),
    RegisteredEngine(
        name="diffusers",
        title="Diffusers",
        surface="generator",
        image="diffusers",
        class_path="cosmos_batch.engines.generator.diffusers.engine:DiffusersEngine",
    ),
    RegisteredEngine(
        name="phyai",
        title="PhyAI",
        surface="generator",
        image="phyai",
        class_path="cosmos_batch.engines.generator.phyai.engine:PhyaiEngine",
        dialect="cosmos_batch.engines.torchrun.group:GroupDialect",
    ),
)

ENGINES: dict[str, RegisteredEngine] = {row.name: row for row in _ROWS}

DEFAULT_IMAGE: dict[Surface, Image] = {"reasoner": "reasoner", "generator": "diffusers"}
"""The image of an engine that is configured as `package.module:Class`."""

ENDPOINT_ENGINE: dict[Surface, str] = {"reasoner": "vllm", "generator": "vllm-omni"}
"""The engine whose server a user's endpoint is taken to run: its dialect is expected and its abilities are assumed. NIM
containers of Cosmos-Reason run vLLM."""


def names_for(surface: Surface) -> list[str]:
    """Return the engines of a surface, as a configuration names them."""
    return [row.name for row in ENGINES.values() if row.surface == surface]


def image_for(engine: str, surface: Surface) -> Image:
    """Return the container image of a pipeline's workers by the configured engine.

    Workers that ask an endpoint load no model; the reasoner's image has what they need. `auto` is in it, too.
    """
    if engine in ENGINES:
        return ENGINES[engine].image
    return "reasoner" if engine in (AUTO, ENDPOINT) else DEFAULT_IMAGE[surface]
