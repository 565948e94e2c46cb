"""The registry of engines: one row for each engine that this project has.

The names that a configuration accepts, the container image of a pipeline, the class that a worker creates, and what a
generator is refused for derive from this table. What belongs to one engine alone, as a rule for a CUDA version or the
words of a description, names that engine where it stands.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from cosmos_batch.catalogue.generation import DOMAINS, MODES, VIDEO_RESOLUTIONS, LossyMode
from cosmos_batch.catalogue.generator_abilities import (
    ACTIONS,
    COSMOS_GUARDRAIL,
    NEWER_DOMAINS,
    PEAKS_OF_DIFFUSERS,
    PLAIN_VIDEOS,
    PROMPT_CHECKER,
    GeneratorAbilities,
)
from cosmos_batch.catalogue.pipelines import Surface

# One image for each engine environment, because the pinned dependencies of the engines conflict.
Image = Literal["reasoner", "diffusers", "omni", "framework", "phyai"]

AUTO = "auto"
"""Leaves the choice to the project: a reasoner's worker takes what fits its machine, and a generator's engine follows
from its instance types (`planning/generation/auto_engine.py`)."""

ENDPOINT = "endpoint"
"""Means that no worker loads a model, but asks a server that the user runs."""

EndpointApi = Literal["openai", "nim"]
"""The interface of such a server: OpenAI's protocol with vLLM-Omni's additions, or `POST /v1/infer` of the NIMs of
Cosmos 3's generator."""


class EndpointDefaults(NamedTuple):
    """The settings of a server of a user's, if the configuration does not have them."""

    requests_at_once: int
    """Requests that a worker sends at once."""

    answer_seconds: int
    """The longest time in which it must answer a request."""


# A NIM works on a request for at most 1,800 seconds, those included in which the request waits for others.
ENDPOINT_DEFAULTS: dict[EndpointApi, EndpointDefaults] = {
    "openai": EndpointDefaults(32, 900),
    "nim": EndpointDefaults(1, 2000),
}

NO_DIALECT = "cosmos_batch.engines.serving.dialect:ServerDialect"


@dataclass(frozen=True)
class RegisteredEngine:
    """An engine that a pipeline can be configured with.

    Attributes
    ----------
    name
        The value of a pipeline's `engine` in the configuration.
    title
        Its name in messages and documentation.
    surface
        Whether it answers questions (`reasoner`) or makes media (`generator`).
    image
        The container image that has its libraries: a folder in `containers/`.
    class_path
        `package.module:Class` of the `Engine` that loads a model in a worker. None for a server that only users run: a
        pipeline has it by an endpoint, and not by its name.
    endpoint_class_path
        `package.module:Class` of the `Engine` that asks a server which the user runs; None if there is none.
    dialect
        `package.module:Class` of the `ServerDialect` that understands what its server prints and answers. Engines
        without a server have none.
    install_hint
        What a person does to install it outside of its image, as part of a sentence.
    cosmos3_only
        Whether a reasoner runs no models but those of Cosmos 3.
    one_image_only
        Whether a reasoner looks at one image a request, and at no video.
    lossy
        The modes of a reasoner that are faster and change its answers. Those of a generator are in `abilities`.
    abilities
        What a generator can do; None for a reasoner. docs/generator-engines.md says what was run and what was read of
        each, in the versions of the images.
    """

    name: str
    title: str
    surface: Surface
    image: Image
    class_path: str | None
    endpoint_class_path: str | None = None
    dialect: str = NO_DIALECT
    install_hint: str | None = None
    cosmos3_only: bool = False
    one_image_only: bool = False
    lossy: tuple[LossyMode, ...] = ()
    abilities: GeneratorAbilities | None = None

    @property
    def by_endpoint(self) -> bool:
        """Return whether a pipeline has it by an endpoint only, and not by its name."""
        return self.class_path is None


def _peaks_above_diffusers(small: float, large: float) -> tuple[tuple[float, float], ...]:
    """Return the peaks of an engine that takes so many GiB more than Diffusers for a video of 320x192, and of 832x480.

    Images are assumed to take as much more as the small video, and videos of 1280x720 as the large one. Of these only
    vLLM-Omni's was measured, on an H200, where it took 3.6 GiB less.
    """
    return tuple(
        (megapixels, peak + more)
        for (megapixels, peak), more in zip(PEAKS_OF_DIFFUSERS, (small, small, large, large), strict=True)
    )


# On an H100, text to video at 832x480 took 39.0 GiB with vLLM-Omni 0.30.0, and 42.4 with PhyAI, which took 35.1 at
# 320x192 with sound (benchmarks/results/generator-phyai-nano.json). The plan counts on 35.6 for Diffusers, of which
# `PEAKS_OF_DIFFUSERS` are; what ships took 34.2 (benchmarks/results/generator-ours-nano.json).
_PEAKS_OF_VLLM_OMNI = _peaks_above_diffusers(0.0, 39.0 - 35.6)
_PEAKS_OF_PHYAI = _peaks_above_diffusers(1.5, 42.4 - 35.6)

_DOMAINS_OF_NIM = ("av", "bridge_orig_lerobot", "droid_lerobot", "umi")

_ROWS = (
    RegisteredEngine(
        name="vllm",
        title="vLLM",
        surface="reasoner",
        image="reasoner",
        class_path="cosmos_batch.engines.reasoner.vllm.engine:VllmEngine",
        endpoint_class_path="cosmos_batch.engines.reasoner.endpoint:EndpointEngine",
        dialect="cosmos_batch.engines.vllm.dialect:VllmDialect",
        install_hint="on a machine with an NVIDIA GPU, `make vllm` does",
        lossy=("fp8", "fp8Cache", "gpuDecode"),
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
        cosmos3_only=True,
        one_image_only=True,
    ),
    # Generators, the fastest first by NVIDIA's own table (inference_benchmarks.md, June 2026: Nano, 720p, one H100:
    # 202, 208 and 240 s), in which PhyAI is not. `fastest_on` says what was measured here.
    RegisteredEngine(
        name="vllm-omni",
        title="vLLM-Omni",
        surface="generator",
        image="omni",
        class_path="cosmos_batch.engines.generator.vllm_omni.engine:VllmOmniEngine",
        endpoint_class_path="cosmos_batch.engines.generator.vllm_omni.endpoint:OmniEndpointEngine",
        dialect="cosmos_batch.engines.generator.vllm_omni.dialect:VllmOmniDialect",
        abilities=GeneratorAbilities(
            guidance_least=1,  # below 1 vLLM-Omni uses no guidance
            fps_least=1,
            table_sizes=("transfer",),
            domain_ids={"robotwin": 17},  # 0.30.0 has no name for it
            one_upload=True,
            axes=("tp", "cfg", "ulysses"),
            offload=True,
            lossy=("seaCache",),
            distilled=True,
            memory_peaks=_PEAKS_OF_VLLM_OMNI,
        ),
    ),
    RegisteredEngine(
        name="cosmos-framework",
        title="Cosmos Framework",
        surface="generator",
        image="framework",
        class_path="cosmos_batch.engines.generator.cosmos_framework.engine:FrameworkGenerator",
        dialect="cosmos_batch.engines.torchrun.group:GroupDialect",
        abilities=GeneratorAbilities(
            guardrail_models=("nvidia/Cosmos-Guardrail1", PROMPT_CHECKER),
            unguarded=("transfer",),
            guidance_limit=7,
            table_sizes=tuple(name for name in MODES if name not in ACTIONS),
            whole_fps=True,
            forward_only=("hand_pose", "libero"),
            domain_names={
                "galbot": "embodiment_b",
                "agibot_gear_gripper": "embodiment_c_gripper",
                "agibot_gear_gripper_ext": "embodiment_c_gripper_ext",
            },
            axes=("tp", "cfg", "ulysses"),
            exclusive_axes=True,
        ),
    ),
    RegisteredEngine(
        name="diffusers",
        title="Diffusers",
        surface="generator",
        image="diffusers",
        class_path="cosmos_batch.engines.generator.diffusers.engine:DiffusersEngine",
        abilities=GeneratorAbilities(
            weights=False,
            unknown_domains=("libero", *NEWER_DOMAINS),
            offload=True,
            lossy=("fp8", "fp8Attention", "stepCache"),
            distilled=True,
            # Seconds for 189 frames with Nano's shape, at 320x192 and 832x480, without encoding, in different runs
            # (docs/benchmarks.md). On an H100: 6.2 and 54.1, vLLM-Omni 7.2 and 56.7, PhyAI 10.2 and 69.3. On an H200:
            # 6.1 and 54.6, vLLM-Omni 7.0 and 57.6. No other kind of GPU was measured.
            fastest_on=("H100", "H200"),
        ),
    ),
    RegisteredEngine(
        name="phyai",
        title="PhyAI",
        surface="generator",
        image="phyai",
        class_path="cosmos_batch.engines.generator.phyai.engine:PhyaiEngine",
        dialect="cosmos_batch.engines.torchrun.group:GroupDialect",
        abilities=GeneratorAbilities(
            modes=(*PLAIN_VIDEOS, *ACTIONS),
            sound=("t2v", "i2v"),
            guardrail_models=(),
            guidance_least=1,
            flow_shift=10.0,
            unknown_domains=NEWER_DOMAINS,
            axes=("tp", "cfg"),
            memory_peaks=_PEAKS_OF_PHYAI,
        ),
    ),
    # By NVIDIA's documentation of releases 2.0 and 2.1 (cookbooks/cosmos3/nim in NVIDIA/cosmos).
    RegisteredEngine(
        name="nim",
        title="NIM",
        surface="generator",
        image="reasoner",
        class_path=None,
        endpoint_class_path="cosmos_batch.engines.generator.nim.endpoint:NimEndpointEngine",
        abilities=GeneratorAbilities(
            sound=(),
            guidance_least=1,
            guidance_limit=7,
            fps_least=1,
            fps_limit=60,
            steps_limit=100,
            fewest_frames=25,
            table_sizes=tuple(name for name in MODES if name not in ACTIONS),
            tiers=VIDEO_RESOLUTIONS,
            long_transfers=False,
            unknown_domains=tuple(name for name in DOMAINS if name not in _DOMAINS_OF_NIM),
            distilled=True,
        ),
    ),
)

ENGINES: dict[str, RegisteredEngine] = {row.name: row for row in _ROWS}

GENERATOR_ABILITIES: dict[str, GeneratorAbilities] = {
    name: row.abilities for name, row in ENGINES.items() if row.abilities is not None
}

DEFAULT_GENERATOR = "vllm-omni"
"""The engine that `auto` stands for where no other engine was measured to be faster (`fastest_on` of its abilities).

By NVIDIA's figures it is the fastest without lossy modes. It also shares a job among GPUs, which the default instance
types need for all models but Edge.
"""

DEFAULT_IMAGE: dict[Surface, Image] = {"reasoner": "reasoner", "generator": "diffusers"}
"""The image of an engine that is configured as `package.module:Class`."""

ENDPOINT_ENGINE: dict[tuple[Surface, EndpointApi], str] = {
    ("reasoner", "openai"): "vllm",
    ("generator", "openai"): "vllm-omni",
    ("generator", "nim"): "nim",
}
"""The engine whose server a user's endpoint is taken to run, by surface and interface: its dialect is expected, its
abilities are assumed, and its `endpoint_class_path` asks it. NIM containers of Cosmos-Reason run vLLM."""


def names_for(surface: Surface) -> list[str]:
    """Return the engines of a surface, as a configuration names them; without those that only an endpoint has."""
    return [row.name for row in ENGINES.values() if row.surface == surface and not row.by_endpoint]


def listed_names(surface: Surface) -> str:
    """Return the engines of a surface as a list for the page of configuration, with what limits a reasoner's.

    >>> listed_names("generator")
    "'vllm-omni', 'cosmos-framework', 'diffusers', 'phyai'"
    """
    return ", ".join(f"'{name}'{_limits_of(ENGINES[name])}" for name in names_for(surface))


def _limits_of(row: RegisteredEngine) -> str:
    limits = [text for text, holds in (("Cosmos 3", row.cosmos3_only), ("images", row.one_image_only)) if holds]
    return f" ({', '.join(limits)})" if limits else ""


def image_for(engine: str, surface: Surface) -> Image:
    """Return the container image of a pipeline's workers by the configured engine.

    Workers that ask an endpoint load no model; the reasoner's image has what they need. `auto` is in it, too.
    """
    if engine in ENGINES:
        return ENGINES[engine].image
    return "reasoner" if engine in (AUTO, ENDPOINT) else DEFAULT_IMAGE[surface]


def guardrail_models(engine: str) -> tuple[str, ...]:
    """Return the models that an engine's guardrails load; a custom engine is assumed to use `cosmos_guardrail`."""
    return GENERATOR_ABILITIES[engine].guardrail_models if engine in GENERATOR_ABILITIES else COSMOS_GUARDRAIL
