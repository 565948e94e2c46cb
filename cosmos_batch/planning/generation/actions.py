"""Settle the embodiment and the actions of a generation."""

import json

from cosmos_batch.catalogue.generation import DOMAINS, FRAME_LIMIT, FRAME_STEP, Domain, Mode, Resolution
from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.error import Failure, suggestion
from cosmos_batch.contract.generation.actions import Actions, ActionSettings, checked_actions
from cosmos_batch.contract.generation.parameters import GenerationParameters

# Bytes of JSON. Step Functions limits a request and its job together to 256 KB; NVIDIA's chunks have 5 to 20 KB.
INLINE_LIMIT = 32 * 1024


def settle_action(parameters: GenerationParameters, mode: Mode, tier: Resolution) -> ActionSettings:
    """Return the settings of a generation with a robot's actions. Raises Failure (InvalidInput)."""
    name, domain = _settle_domain(parameters.domain_name)
    if parameters.num_frames is not None:
        raise Failure(
            "InvalidInput",
            "numFrames: is always one more than actionChunkSize.",
            "Set actionChunkSize instead.",
        )
    width = _settle_width(name, domain, parameters)
    actions = None if parameters.action is None else checked_actions(parameters.action, width)
    if actions is not None:
        _refuse_large(actions)
    if mode == "forward_dynamics" and (actions is None) == (parameters.action_path is None):
        problem = "is missing" if actions is None else "cannot be combined with actionPath"
        raise Failure("InvalidInput", f"action: {problem}.", "Send the actions as action, or name their file.")
    return ActionSettings(
        domain_name=name,
        width=width,
        chunk_size=_settle_chunk(parameters.action_chunk_size, actions, domain, tier),
        view_point=parameters.view_point or "ego_view",
        actions=actions,
        path=parameters.action_path,
    )


def _settle_domain(name: str | None) -> tuple[str, Domain]:
    if name is None or name not in DOMAINS:
        problem = "is missing" if name is None else f"{name!r} is not known"
        remedy = f"{suggestion(name or '', DOMAINS)}Use one of: {', '.join(DOMAINS)}."
        raise Failure("InvalidInput", f"domainName: {problem}.", remedy)
    return name, DOMAINS[name]


def _settle_width(name: str, domain: Domain, parameters: GenerationParameters) -> int:
    """Return how many numbers one action has: as requested, as the first row has, or as the domain has.

    Raises Failure if the domain has no such width, or if it has several and the request has no rows to choose by.
    """
    several = len(domain.widths) > 1
    width = parameters.raw_action_dim
    if width is None:
        first_row = next(iter(parameters.action or []), None)
        first_width = len(first_row) if isinstance(first_row, list) else None
        width = first_width if several else domain.widths[0]
    if width not in domain.widths:
        widths = " or ".join(map(str, domain.widths))
        problem = "is missing" if width is None else f"{width} is not the width of {name}"
        raise Failure(
            "InvalidInput",
            f"rawActionDim: {problem}; an action of {name} has {widths} numbers.",
            "Set it to the one that your data have." if several else "Leave rawActionDim out, or correct domainName.",
        )
    return width


def _settle_chunk(requested: int | None, actions: Actions | None, domain: Domain, tier: Resolution) -> int:
    """Return how many actions there are: as requested, as sent, or as the domain was trained with."""
    chunk = requested or (len(actions) if actions else domain.chunk_size)
    limit = FRAME_LIMIT[tier] - 1
    if chunk % FRAME_STEP or chunk > limit:
        raise Failure(
            "InvalidInput",
            f"actionChunkSize: {counted(chunk, 'action')} would take a video of {chunk + 1} frames, which is not "
            f"possible at {tier}.",
            f"Use a multiple of {FRAME_STEP}, {limit} at most; NVIDIA uses {domain.chunk_size} for this domain.",
        )
    if actions is not None:
        refuse_rows(len(actions), chunk)
    return chunk


def refuse_rows(rows: int, chunk: int) -> None:
    """Raise Failure if there are not as many actions as the chunk has. Engines would cut them or repeat the last."""
    if rows != chunk:
        raise Failure(
            "InvalidInput",
            f"action: has {counted(rows, 'row')}, and actionChunkSize is {chunk}.",
            f"Set actionChunkSize (--action-chunk-size) to {rows}, or send {counted(chunk, 'row')}, "
            "one job for each chunk.",
        )


def _refuse_large(actions: Actions) -> None:
    size = len(json.dumps(actions))
    if size > INLINE_LIMIT:
        raise Failure(
            "InvalidInput",
            f"action: {size:,} bytes of JSON are more than the {INLINE_LIMIT:,} that a request may contain.",
            "Write them into a JSON file and name it as actionPath.",
        )
