"""Embodiments, and the arrays of actions that drive or describe them.

Names and widths are NVIDIA's: `EMBODIMENT_TO_DOMAIN_ID` and `EMBODIMENT_TO_RAW_ACTION_DIM` of Cosmos Framework
(`cosmos_framework/data/generator/action/utils/domain_utils.py` at 5eee9ed), and for `hand_pose`, which has no width
there, the one of Diffusers (`_EMBODIMENT_TO_RAW_ACTION_DIM` in `pipeline_cosmos3_omni.py`); where both have a domain
they agree. The widths of `libero` are those of its `rotation_space`, of which that file tells too. Chunks and frame
rates are those of Framework's `inputs/omni` and of the action cookbook in NVIDIA/cosmos; where these show none,
Framework's own 16 and 24.
"""

import json
import math
from dataclasses import dataclass
from typing import Literal, get_args

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.sizes import FRAME_LIMIT, FRAME_STEP, Resolution

# In NVIDIA's order: the seed's requests say 0 for the first.
ViewPoint = Literal["ego_view", "third_person_view", "wrist_view", "concat_view"]
VIEW_POINTS = get_args(ViewPoint)

Actions = list[list[float]]

# Bytes of JSON. Step Functions keeps 256 KB of a request and its job together; NVIDIA's chunks have 5 to 20 KB.
INLINE_LIMIT = 32 * 1024


@dataclass(frozen=True)
class Domain:
    """An embodiment: how many numbers say one action, and how many actions at which rate it was trained with.

    Attributes
    ----------
    widths
        One, or all of which a data set of this embodiment has one.
    """

    widths: tuple[int, ...]
    chunk_size: int = 16
    fps: float = 24.0


DOMAINS: dict[str, Domain] = {
    "av": Domain((9,), chunk_size=60, fps=10.0),
    "camera_pose": Domain((9,), chunk_size=60, fps=30.0),
    "pusht": Domain((2,)),
    "umi": Domain((10,), fps=20.0),
    "bridge_orig_lerobot": Domain((10,), fps=5.0),
    "droid_lerobot": Domain((10,), fps=15.0),
    "robomind-franka": Domain((10,)),
    "robomind-franka-dual": Domain((20,)),
    "robomind-ur": Domain((10,)),
    "fractal": Domain((10,)),
    "agibotworld": Domain((29,)),
    "agibot_gear_gripper": Domain((29,)),
    "agibot_gear_gripper_ext": Domain((29,)),
    "galbot": Domain((30,)),
    "hand_pose": Domain((57,)),
    "libero": Domain((7, 10, 13)),
    "xdof_yam": Domain((20,)),
    "molmoact2_yam": Domain((20,)),
    "abc_yam": Domain((20,)),
    "maniparena": Domain((20,)),
    "robotwin": Domain((14,)),
    "behavior1k_lerobot": Domain((23,)),
    "drawanything": Domain((3,)),
}

# Short ones, and those that Cosmos Framework has given some of them since.
_OTHER_NAMES = {
    "bridge": "bridge_orig_lerobot",
    "droid": "droid_lerobot",
    "franka": "robomind-franka",
    "franka-dual": "robomind-franka-dual",
    "ur": "robomind-ur",
    "embodiment_b": "galbot",
    "embodiment_c_gripper": "agibot_gear_gripper",
    "embodiment_c_gripper_ext": "agibot_gear_gripper_ext",
}


def read_domain(name: str) -> str:
    """Our name of a domain that may be written as elsewhere; else the name as it is."""
    plain = name.strip().lower()
    return _OTHER_NAMES.get(plain, plain if plain in DOMAINS else name)


def settle_domain(name: str | None) -> Domain:
    """The embodiment of this name. Raises Failure where there is none."""
    domain = DOMAINS.get(name or "")
    if domain is None:
        problem = "is missing" if name is None else f"{name!r} is not known"
        raise Failure("InvalidInput", f"domainName: {problem}.", f"Use one of: {', '.join(DOMAINS)}.")
    return domain


def settle_width(name: str, domain: Domain, raw_action_dim: int | None, given: object) -> int:
    """How many numbers one action has: as was said, as the first row that was given has, or as the domain has.

    Raises Failure where it is none that the domain has, or where the domain has several and nobody says which.
    """
    rows = given if isinstance(given, list) and given and isinstance(given[0], list) else None
    several = len(domain.widths) > 1
    width = raw_action_dim or (len(rows[0]) if several and rows else None if several else domain.widths[0])
    if width not in domain.widths:
        widths = " or ".join(str(one) for one in domain.widths)
        problem = "is missing" if width is None else f"{width} is not the width of {name}"
        raise Failure(
            "InvalidInput",
            f"rawActionDim: {problem}; an action of {name} has {widths} numbers.",
            "Say which of them your data have." if several else "Leave rawActionDim out, or correct domainName.",
        )
    return width


def settle_chunk(said: int | None, rows: int | None, domain: Domain, tier: Resolution) -> int:
    """How many actions: as said, as given, or as trained. Raises Failure where no video can stand beside them."""
    chunk = said or rows or domain.chunk_size
    limit = FRAME_LIMIT[tier] - 1
    if chunk % FRAME_STEP or chunk > limit:
        raise Failure(
            "InvalidInput",
            f"actionChunkSize: {chunk} actions stand beside {chunk + 1} frames, which are not possible at {tier}.",
            f"Use a multiple of {FRAME_STEP}, {limit} at most; NVIDIA uses {domain.chunk_size} for this domain.",
        )
    if rows is not None:
        refuse_rows(rows, chunk)
    return chunk


def refuse_rows(rows: int, chunk: int) -> None:
    """Raises Failure where there are not as many actions as the chunk has."""
    if rows != chunk:
        raise Failure(
            "InvalidInput",
            f"action: has {rows} rows, and actionChunkSize is {chunk}: engines would cut them, or repeat the last.",
            "Send as many rows as the chunk has actions; one job for each chunk.",
        )


def checked_actions(given: object, width: int) -> Actions:
    """An array that came as JSON. Raises Failure which names the row that is wrong."""
    if not isinstance(given, list) or not given:
        raise _refusal("is not an array of actions", width)
    return [_checked_row(row, index, width) for index, row in enumerate(given)]


def refuse_large(actions: Actions) -> None:
    """Raises Failure where they are too many to travel within a request."""
    size = len(json.dumps(actions))
    if size > INLINE_LIMIT:
        raise Failure(
            "InvalidInput",
            f"action: {size:,} bytes of JSON are more than the {INLINE_LIMIT:,} that a request carries.",
            "Write them into a JSON file and name it as actionPath.",
        )


def _checked_row(row: object, index: int, width: int) -> list[float]:
    if not isinstance(row, list):
        raise _refusal(f"row {index} is not an array", width)
    if len(row) != width:
        raise _refusal(f"row {index} has {len(row)} numbers", width)
    for number in row:
        if isinstance(number, bool) or not isinstance(number, int | float) or not _finite(number):
            raise _refusal(f"row {index} holds {str(number)[:40]}, which is no finite number", width)
    return [float(number) for number in row]


def _finite(number: float) -> bool:
    try:
        return math.isfinite(float(number))
    except OverflowError:
        return False


def _refusal(problem: str, width: int) -> Failure:
    return Failure(
        "InvalidInput",
        f"action: {problem}.",
        f"Send a JSON array of rows, one for each action, each of {width} finite numbers.",
    )
