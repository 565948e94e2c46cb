"""True answers about a scene: its captions, events, boxes and times, in the words that the model learns."""

import json

import numpy as np

from cosmos_batch.contract.tasks import AXIS
from cosmos_batch.demo.scenes import Movement, Scene, Thing

NUMBERS = ("no", "one", "two", "three")


def the(thing: Thing) -> str:
    """Return a phrase such as "the red circle"."""
    return f"the {thing.name}"


def a(thing: Thing) -> str:
    """Return a phrase such as "a red circle" or "an orange star"."""
    return f"{'an' if thing.name[0] in 'aeiou' else 'a'} {thing.name}"


def predicate(scene: Scene, event: Movement | None) -> str:
    """Return what a shape does, such as "moves to the right"."""
    if event is None:
        return "stays still"
    if event.move == "pushed":
        return f"is pushed to the {event.direction}"
    if event.move in ("left", "right", "approach"):
        return f"moves to the {event.direction}"
    if event.move in ("up", "down"):
        return f"moves {event.move}"
    if event.move == "bounce":
        return "bounces on the ground"
    if event.move == "rise":
        return "falls upwards"
    if event.move == "fall":
        return "falls to the ground"
    assert event.other is not None
    target = the(scene.things[event.other])
    verb = "hits" if event.move == "hit" else "passes through"
    return f"moves to the {event.direction} and {verb} {target}"


def sentence(text: str) -> str:
    """Return the text with a capital first letter and a full stop."""
    return text[0].upper() + text[1:] + "."


def listed(parts: list[str]) -> str:
    """Return a list such as "a, b and c"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def from_left(scene: Scene) -> list[Thing]:
    """Return the shapes from left to right at the beginning of the clip."""
    return sorted(scene.things, key=lambda one: one.x)


def caption(scene: Scene) -> str:
    """Return a caption with every shape, its color and its motion, in order."""
    if scene.duration == 0:
        return f"The image shows {listed([a(one) for one in from_left(scene)])} on a {scene.background} background."
    clauses = [f"{a(scene.things[index])} {predicate(scene, event)}" for index, event in scene.events]
    hit = {event.other for _, event in scene.events if event.move in ("hit", "pass")}
    moving = {index for index, _ in scene.events} | hit
    still = [a(one) for index, one in enumerate(scene.things) if index not in moving]
    text = ", then ".join(clauses)
    if still:
        rest = f"{listed(still)} {'stays' if len(still) == 1 else 'stay'} still"
        text = f"{text}, while {rest}" if text else rest
    return f"On a {scene.background} background, {text}."


def event_sentence(scene: Scene, index: int) -> str:
    """Return a sentence with what one shape does."""
    thing = scene.things[index]
    return sentence(f"{the(thing)} {predicate(scene, thing.event)}")


def next_sentence(scene: Scene) -> str:
    """Return a sentence with what happens after the end of the clip."""
    running = [(index, event) for index, event in scene.events if event.end > scene.duration + 0.05]
    if not running:
        return "Nothing moves any more."
    index, event = running[-1]
    name = the(scene.things[index])
    if event.move == "fall":
        return sentence(f"{name} lands on the ground")
    if event.move == "approach":
        assert event.other is not None
        return sentence(f"{name} hits {the(scene.things[event.other])}")
    if event.move == "bounce":
        return sentence(f"{name} keeps bouncing")
    if event.move == "rise":
        return sentence(f"{name} keeps falling upwards")
    direction = event.move if event.move in ("up", "down") else f"to the {event.direction}"
    return sentence(f"{name} keeps moving {direction}")


def verdict(scene: Scene) -> str:
    """Return whether the clip is physically plausible, and if not, why."""
    for index, event in scene.events:
        if event.move in ("rise", "pass"):
            thing = the(scene.things[index])
            reason = (
                "falls upwards" if event.move == "rise" else f"passes through {the(scene.things[event.other or 0])}"
            )
            return f"No, {thing} {reason}."
    return "Yes, this is physically plausible."


def box(scene: Scene, thing: Thing, time: float) -> list[int]:
    """Return left, top, right and bottom of a shape in thousandths of the picture."""
    left, top, right, bottom = thing.boxes(np.array([time]))[0]
    scale = [scene.width, scene.height] * 2
    return [
        int(min(AXIS, max(0, round(AXIS * side / of))))
        for side, of in zip((left, top, right, bottom), scale, strict=True)
    ]


def boxes_answer(scene: Scene, things: list[Thing], time: float) -> str:
    """Return a JSON list of boxes with labels."""
    return json.dumps([{"bbox_2d": box(scene, one, time), "label": one.name} for one in things])


def point_answer(scene: Scene, thing: Thing, time: float) -> str:
    """Return a JSON list with the center of a shape's box."""
    left, top, right, bottom = box(scene, thing, time)
    return json.dumps([{"point_2d": [(left + right) // 2, (top + bottom) // 2], "label": thing.name}])


def clock(seconds: float) -> str:
    """Return a time such as "00:02.50"."""
    return f"{int(seconds // 60):02d}:{seconds % 60:05.2f}"


def interval(scene: Scene, index: int) -> tuple[float, float]:
    """Return when a shape moves, in seconds to one decimal, within the clip; the whole clip for a shape at rest."""
    event = scene.things[index].event
    if event is None:
        return 0.0, round(scene.duration, 1)
    return round(event.start, 1), round(min(event.end, scene.duration), 1)


def localization(scene: Scene, as_clock: bool, offset: float) -> str:
    """Return a JSON list of the movements with their times."""
    indices = [index for index, _ in scene.events] or [0]
    items = []
    for index in indices:
        start, end = (round(one + offset, 1) for one in interval(scene, index))
        times = {"start": clock(start), "end": clock(end)} if as_clock else {"start": start, "end": end}
        items.append({**times, "caption": event_sentence(scene, index)})
    return json.dumps(items)
