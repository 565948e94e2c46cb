"""A table of generations of every kind, whose requests are passed to the engines' own argument models."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.catalogue.formats import Medium
from cosmos_batch.catalogue.generation import DOMAINS, SIZES
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.engines.generator.inputs import action_size
from cosmos_batch.planning.generation.abilities import first_obstacle
from cosmos_batch.planning.generation.dimensions import fit_to_input
from cosmos_batch.planning.generation.transfer import follow_controls
from tests.support.generations import settled

INPUT = (1920, 1080)
NEGATIVE = "NVIDIA's own"  # replaces the default negative prompt, two pages of text, in the records
CONTROL = {"path": "control.mp4"}
JSON_PROMPT = {"subject": "a robot", "duration": "7s"}
TEXT_TO_IMAGE, IMAGE_TO_VIDEO = "cosmos3-super-text2image", "cosmos3-super-image2video"


@dataclass(frozen=True)
class Case:
    """A generation as a caller may request it."""

    name: str
    parameters: dict[str, Any]
    medium: Medium | None = None
    pipeline: str = "cosmos3-nano"
    prompt: str | dict[str, Any] = "A robot pours water."

    def generation(self) -> Generation:
        """Return the settled generation, fitted to an input of the size `INPUT`."""
        generation = settled({"seed": 7, **self.parameters}, self.medium, self.prompt, self.pipeline, guardrails=False)
        if generation.transfer:
            generation = follow_controls(
                generation, dict.fromkeys(generation.transfer.controls, generation.num_frames or 100), 24.0
            )
        if generation.action is None:
            return fit_to_input(generation, *INPUT)
        assert generation.resolution is not None
        size = action_size(generation.resolution, *INPUT)
        return generation.model_copy(update={"width": size.width, "height": size.height})


def cases(engine: str) -> Iterator[tuple[Case, Generation]]:
    """Return the cases that an engine can do, each with its generation."""
    for case in CASES:
        generation = case.generation()
        if first_obstacle(GENERATOR_ABILITIES[engine], generation) is None:
            yield case, generation


def _sizes() -> Iterator[Case]:
    for tier, sizes in SIZES.items():
        for ratio in sizes:
            preset = {"resolution": tier, "aspectRatio": ratio}
            yield Case(f"t2i {tier} {ratio}", {"mode": "t2i", **preset}, pipeline=TEXT_TO_IMAGE)
            if tier != "768p":
                yield Case(f"t2v {tier} {ratio}", {"mode": "t2v", **preset})


def _actions() -> Iterator[Case]:
    for name, domain in DOMAINS.items():
        rows = [[0.25] * domain.widths[0]] * domain.chunk_size
        parameters = {"domainName": name, **({"rawActionDim": domain.widths[0]} if len(domain.widths) > 1 else {})}
        yield Case(f"forward_dynamics {name}", {"mode": "forward_dynamics", **parameters, "action": rows}, "image")
        yield Case(f"inverse_dynamics {name}", {"mode": "inverse_dynamics", **parameters}, "video")
        yield Case(f"policy {name}", {"mode": "policy", **parameters}, "image")


def _transfers() -> Iterator[Case]:
    for hint in ("edge", "blur", "depth", "seg", "wsm"):
        yield Case(f"transfer {hint}", {"mode": "transfer", "controls": {hint: CONTROL}})
    several = {"edge": {**CONTROL, "weight": 2}, "depth": CONTROL}
    yield Case("transfer of two, weighted", {"mode": "transfer", "controls": several})
    short = {"mode": "transfer", "controls": {"edge": CONTROL}, "numFrames": 17, "framesPerChunk": 61}
    yield Case("transfer shorter than its chunk", short)
    yield Case(
        "transfer whose edges are made", {"mode": "transfer", "controls": {"edge": {"strength": "high"}}}, "video"
    )


CASES = (
    *_sizes(),
    *(Case(f"{mode} at its defaults", {"mode": mode}) for mode in ("t2i", "t2v")),
    Case("i2v at its defaults", {}, "image"),
    Case("v2v at its defaults", {}, "video"),
    *(
        Case(f"{mode} with sound", {"mode": mode, "sound": True}, medium)
        for mode, medium in (("t2v", None), ("i2v", "image"), ("v2v", "video"))
    ),
    Case("v2v on its last frames", {"conditionFrames": [0, 1, 2], "conditionKeep": "last"}, "video"),
    Case("t2i of a prompt in JSON", {"mode": "t2i"}, prompt=JSON_PROMPT),
    Case("t2v of a prompt in JSON", {"mode": "t2v"}, prompt=JSON_PROMPT),
    Case("t2v without templates", {"mode": "t2v", "useResolutionTemplate": False, "useDurationTemplate": False}),
    Case("t2v with one template", {"mode": "t2v", "useResolutionTemplate": False}),
    Case("t2v without a negative prompt", {"mode": "t2v", "negativePrompt": ""}),
    Case("t2v of a long prompt", {"mode": "t2v", "maxSequenceLength": 16_384}, prompt="A cube. " * 1000),
    Case("t2v unguided", {"mode": "t2v", "guidanceScale": 1}),
    Case("t2v of its longest", {"mode": "t2v", "resolution": "256p", "numFrames": 397}),
    Case("t2v of its shortest", {"mode": "t2v", "numFrames": 5, "steps": 1}),
    Case("t2v at another rate", {"mode": "t2v", "fps": 16}),
    Case("t2v at a broadcast rate", {"mode": "t2v", "fps": 29.97}),
    Case("t2v of another size", {"mode": "t2v", "width": 640, "height": 368}),
    Case("t2v with the highest seed", {"mode": "t2v", "seed": 2**32 - 1}),
    Case("t2v of another shift", {"mode": "t2v", "flowShift": 5}),
    Case("t2v, strongly guided", {"mode": "t2v", "guidanceScale": 7}),
    Case("i2v on Super", {}, "image", IMAGE_TO_VIDEO),
    Case("t2v on Super", {"mode": "t2v"}, pipeline="cosmos3-super"),
    *_actions(),
    Case("policy from a video at 720p", {"mode": "policy", "domainName": "av", "resolution": "720p"}, "video"),
    Case(
        "forward_dynamics seen from the wrist",
        {"mode": "forward_dynamics", "domainName": "umi", "viewPoint": "wrist_view", "action": [[0.5] * 10] * 16},
        "image",
    ),
    *_transfers(),
)

assert len({case.name for case in CASES}) == len(CASES)
