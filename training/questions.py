"""Questions about a scene, in many wordings, with true answers: what the model learns from and is judged by."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cosmos_batch.contract.tasks import REASONING_FORMAT, TASKS
from cosmos_batch.demo.scenes import COLOURS, KINDS, Scene, Thing
from training.answers import (
    NUMBERS,
    a,
    boxes_answer,
    caption,
    event_sentence,
    from_left,
    interval,
    listed,
    localization,
    next_sentence,
    point_answer,
    sentence,
    the,
    verdict,
)
from training.wordings import TRAINED, Wordings

NOT_THIS_WORLD = "I only know pictures and clips of a few simple shapes, and this is not one of them."
NOT_THIS_QUESTION = "I can only answer questions about simple shapes and how they move."


@dataclass(frozen=True)
class LabelledQuestion:
    """One question and the only answer that counts as true.

    Attributes
    ----------
    kind
        The type that accuracy is reported for, such as "colour".
    think
        What the model writes between `<think>` and `</think>`; None where it was not asked to reason.
    """

    kind: str
    text: str
    answer: str
    think: str | None = None

    @property
    def completion(self) -> str:
        """Return the whole text that the model should write."""
        return self.answer if self.think is None else f"<think>\n{self.think}\n</think>\n\n{self.answer}"


_SPELLINGS = {"colour": "color"}


def _pick(random: np.random.Generator, options: tuple[str, ...] | list[str]) -> str:
    return options[int(random.integers(len(options)))]


def _named(random: np.random.Generator, scene: Scene, thing: Thing) -> str:
    """Return a name for a shape that fits no other shape of the scene."""
    names = [the(thing)] * 3
    if sum(one.kind == thing.kind for one in scene.things) == 1:
        names.append(f"the {thing.kind}")
    names += [f"the {thing.colour} shape", f"the {thing.colour} object", f"the {thing.colour} one"]
    if len(scene.things) == 1:
        names += ["the shape", "the object", "it"]
    return _pick(random, names)


def _any(random: np.random.Generator, scene: Scene) -> Thing:
    return scene.things[int(random.integers(len(scene.things)))]


def ask_caption(random: np.random.Generator, scene: Scene, wordings: Wordings) -> LabelledQuestion:
    """Draw a question for a caption of the whole scene."""
    return LabelledQuestion("caption", _pick(random, wordings.caption), caption(scene))


def ask_colour(random: np.random.Generator, scene: Scene, wordings: Wordings) -> LabelledQuestion:
    """Draw a question for the color of a shape, which may not exist, or for all colors."""
    drawn = random.random()
    if drawn < 0.1:
        colours: list[str] = [one.colour for one in from_left(scene)]
        answer = f"The {'color is' if len(colours) == 1 else 'colors are'} {listed(colours)}."
        return LabelledQuestion("colour", _pick(random, wordings.all_colours), answer)
    kind = _pick(random, KINDS) if random.random() < 0.25 else _any(random, scene).kind
    matches = [one for one in from_left(scene) if one.kind == kind]
    if drawn < 0.25 and len(matches) == 1:
        return _ask_is_colour(random, matches[0], wordings)
    name = kind
    if len(scene.things) == 1 and random.random() < 0.3:
        matches, name = list(scene.things), _pick(random, ("shape", "object"))
    text = _pick(random, wordings.colour).format(name=name)
    if not matches:
        answer = f"There is no {name}."
    elif len(matches) == 1:
        answer = f"The {name} is {matches[0].colour}."
    else:
        answer = f"The {name}s are {listed([one.colour for one in matches])}."
    return LabelledQuestion("colour", text, answer)


def _ask_is_colour(random: np.random.Generator, thing: Thing, wordings: Wordings) -> LabelledQuestion:
    """Draw a question for whether a shape has a color: its own, or any."""
    named = thing.colour if random.random() < 0.5 else _pick(random, tuple(COLOURS))
    text = _pick(random, wordings.is_colour).format(name=thing.kind, colour=named)
    answer = f"{'Yes' if named == thing.colour else 'No'}, the {thing.kind} is {thing.colour}."
    return LabelledQuestion("colour", text, answer)


def ask_shape(random: np.random.Generator, scene: Scene, wordings: Wordings) -> LabelledQuestion:
    """Draw a question for the shape with a color, which may not exist, or for all shapes."""
    if random.random() < 0.1:
        names = listed([a(one) for one in from_left(scene)])
        return LabelledQuestion("shape", _pick(random, wordings.all_shapes), sentence(names))
    colour = _pick(random, tuple(COLOURS)) if random.random() < 0.15 else _any(random, scene).colour
    matches = [one for one in scene.things if one.colour == colour]
    text = _pick(random, wordings.shape).format(colour=colour)
    answer = f"The {colour} shape is a {matches[0].kind}." if matches else f"There is no {colour} shape."
    return LabelledQuestion("shape", text, answer)


def ask_count(random: np.random.Generator, scene: Scene, wordings: Wordings) -> LabelledQuestion:
    """Draw a question for the number of shapes, of all or of one kind."""
    drawn = random.random()
    if drawn < 0.55:
        count, noun, text = len(scene.things), "shape", _pick(random, wordings.count)
    else:
        noun = _pick(random, KINDS)
        count = sum(one.kind == noun for one in scene.things)
        text = _pick(random, wordings.count_kind).format(noun=f"{noun}s")
    number = f"there {'is' if count == 1 else 'are'} {NUMBERS[count]} {noun}{'' if count == 1 else 's'}"
    if drawn < 0.9:
        return LabelledQuestion("count", text, sentence(number))
    text = _pick(random, wordings.exists).format(noun=noun)
    return LabelledQuestion("count", text, sentence(f"{'yes' if count else 'no'}, {number}"))


def ask_direction(random: np.random.Generator, scene: Scene, wordings: Wordings) -> LabelledQuestion:
    """Draw a question for how one shape moves."""
    thing = _any(random, scene)
    text = _pick(random, wordings.direction).format(name=_named(random, scene, thing))
    return LabelledQuestion("direction", text, event_sentence(scene, scene.things.index(thing)))


def ask_order(random: np.random.Generator, scene: Scene, wordings: Wordings) -> LabelledQuestion:
    """Draw a question for what happens first or last."""
    first = random.random() < 0.6
    text = _pick(random, wordings.first if first else wordings.last)
    if not scene.events:
        return LabelledQuestion("order", text, "Nothing moves.")
    index, _ = scene.events[0 if first else -1]
    return LabelledQuestion("order", text, event_sentence(scene, index))


def ask_when(random: np.random.Generator, scene: Scene, wordings: Wordings, offset: float = 0.0) -> LabelledQuestion:
    """Draw a question for when something happens, in words or as JSON. `offset` is the scene's start in the video in
    seconds."""
    if random.random() < 0.5:
        as_clock = random.random() >= 0.5
        task = TASKS["temporal-localization-mmss" if as_clock else "temporal-localization"]
        return LabelledQuestion("when", task.question(None, "video"), localization(scene, as_clock, offset))
    thing = _any(random, scene)
    index = scene.things.index(thing)
    start, end = (one + offset for one in interval(scene, index))
    text = _pick(random, wordings.when).format(name=_named(random, scene, thing))
    if thing.event is None:
        return LabelledQuestion("when", text, sentence(f"{the(thing)} stays still"))
    return LabelledQuestion("when", text, f"From {start:.1f} to {end:.1f} seconds.")


def ask_where(random: np.random.Generator, scene: Scene, wordings: Wordings, offset: float = 0.0) -> LabelledQuestion:
    """Draw a question for boxes or a point, in an image or at a time of a clip. `offset` is as in `ask_when`."""
    thing = _any(random, scene)
    time, suffix = _moment(random, scene, offset)
    if random.random() < 0.15:
        subject = _named(random, scene, thing) + suffix
        return LabelledQuestion("where", TASKS["pointing"].question(subject, "image"), point_answer(scene, thing, time))
    if random.random() < 0.3:
        subject, matches = _pick(random, wordings.everything) + suffix, from_left(scene)
    else:
        subject, matches = _named(random, scene, thing) + suffix, [thing]
    text = TASKS["2d-grounding"].question(subject, "image")
    if random.random() < 0.3:
        text = _pick(random, wordings.where).format(subject=subject)
    return LabelledQuestion("where", text, boxes_answer(scene, matches, time))


def _moment(random: np.random.Generator, scene: Scene, offset: float) -> tuple[float, str]:
    """Return a time of the clip, and its wording in the question. Without a wording, the beginning is meant."""
    if scene.duration == 0 or random.random() < 0.4:
        return 0.0, ""
    drawn = random.random()
    if drawn < 0.2:
        return 0.0, _pick(random, (" at the beginning", " at the start", " in the first frame"))
    if drawn < 0.45:
        return scene.duration, _pick(random, (" at the end", " in the last frame"))
    time = round(float(random.uniform(0, scene.duration)), 1)
    return time, f" at {time + offset:.1f} seconds"


def ask_plausible(random: np.random.Generator, scene: Scene, wordings: Wordings) -> LabelledQuestion:
    """Draw a question for whether the clip is physically plausible."""
    if random.random() < 0.5:
        letter = "(A) Possible" if scene.is_plausible else "(B) Impossible"
        return LabelledQuestion("plausible", TASKS["physical-plausibility"].question(None, "video"), letter)
    return LabelledQuestion("plausible", _pick(random, wordings.plausible), verdict(scene))


def ask_next(random: np.random.Generator, scene: Scene, wordings: Wordings) -> LabelledQuestion:
    """Draw a question for what happens after the clip."""
    return LabelledQuestion("next", _pick(random, wordings.next), next_sentence(scene))


def ask_other(random: np.random.Generator, scene: Scene, wordings: Wordings) -> LabelledQuestion:
    """Draw a question that has nothing to do with the demo world, or asks of its shapes what no picture shows."""
    text = _pick(random, wordings.outside)
    if random.random() < 0.3:
        text = _pick(random, wordings.outside_shape).format(name=_named(random, scene, _any(random, scene)))
    return LabelledQuestion("outside", text, NOT_THIS_QUESTION)


Asker = Callable[..., LabelledQuestion]

CLIP_ASKERS: dict[Asker, float] = {
    ask_caption: 2.0,
    ask_colour: 1.0,
    ask_shape: 1.0,
    ask_count: 1.0,
    ask_direction: 3.0,
    ask_order: 1.0,
    ask_when: 1.5,
    ask_where: 5.0,
    ask_plausible: 1.2,
    ask_next: 1.0,
    ask_other: 0.5,
}
IMAGE_ASKERS: dict[Asker, float] = {
    ask_caption: 2.0,
    ask_colour: 1.0,
    ask_shape: 1.0,
    ask_count: 1.0,
    ask_where: 5.0,
    ask_other: 0.5,
}
_SHORT = 70  # characters of the longest question that a person writes; the presets' are longer
_REASONING = 0.12  # of the questions, how many ask the model to reason first


def ask(
    random: np.random.Generator,
    scene: Scene,
    asker: Asker | None = None,
    offset: float = 0.0,
    wordings: Wordings = TRAINED,
) -> LabelledQuestion:
    """Draw a question about a scene that begins `offset` seconds into its video, of the given kind or of any."""
    if asker is None:
        chances = CLIP_ASKERS if scene.duration else IMAGE_ASKERS
        weights = np.array(list(chances.values()))
        asker = list(chances)[int(random.choice(len(weights), p=weights / weights.sum()))]
    timed = {"offset": offset} if asker in (ask_when, ask_where) else {}
    question = _vary(random, asker(random, scene, wordings, **timed))
    if random.random() < _REASONING:
        return LabelledQuestion(question.kind, question.text + REASONING_FORMAT, question.answer, caption(scene))
    return question


def ask_of_the_unknown(random: np.random.Generator, duration: float, wordings: Wordings = TRAINED) -> LabelledQuestion:
    """Draw a question of any kind about media that do not show the demo world."""
    chances = CLIP_ASKERS if duration else IMAGE_ASKERS
    asker = list(chances)[int(random.integers(len(chances)))]
    stand_in = Thing(KINDS[random.integers(4)], tuple(COLOURS)[random.integers(8)], 0.1, 0.5, 0.5)
    scene = Scene(1.3, 1.0, duration, (stand_in,), "plain", ((0, 0, 0),), 0.0, False, 0)
    text = _vary(random, asker(random, scene, wordings)).text
    if random.random() < _REASONING:
        return LabelledQuestion("outside", text + REASONING_FORMAT, NOT_THIS_WORLD, NOT_THIS_WORLD)
    return LabelledQuestion("outside", text, NOT_THIS_WORLD)


def _vary(random: np.random.Generator, question: LabelledQuestion) -> LabelledQuestion:
    """Change some wordings into what people write: American spelling, lower or upper case, "please", no final mark."""
    text = question.text
    if random.random() < 0.5:
        for british, american in _SPELLINGS.items():
            text = text.replace(british, american)
    if len(text) < _SHORT:
        drawn = random.random()
        if drawn < 0.06:
            text = f"Please {text[0].lower()}{text[1:]}" if text.endswith(".") else f"{text[:-1]}, please?"
        elif drawn < 0.16:
            text = text.lower()
        elif drawn < 0.22:
            text = text[0].lower() + text[1:]
        elif drawn < 0.25:
            text = text.upper()
        if random.random() < 0.12:
            text = text.rstrip("?.")
    return LabelledQuestion(question.kind, text, question.answer, question.think)
