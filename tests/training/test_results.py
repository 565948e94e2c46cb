"""The results of the committed weights: they meet the goals, fit together, and are what the card says."""

import hashlib
import re
from collections import Counter
from dataclasses import fields

import pytest

from cosmos_batch.demo import DEMO_REASON
from training.card import GOALS, card, percent, read
from training.refusals import REFUSALS, Refusal, rates
from training.wordings import TRAINED


@pytest.mark.parametrize("name", ["accuracy", "refusals", "agreement"])
def test_results_are_those_of_the_committed_weights(name: str) -> None:
    weights = (DEMO_REASON / "model.safetensors").read_bytes()

    assert read(name)["weights"] == hashlib.sha256(weights).hexdigest()


def test_the_card_says_what_the_results_say() -> None:
    """`python -m training.card` writes the card from the results."""
    assert (DEMO_REASON / "README.md").read_text(encoding="utf-8") == card()


@pytest.mark.parametrize(("kind", "goal"), [(kind, goal) for kind, goal in GOALS.items() if goal is not None])
def test_the_goals_are_met(kind: str, goal: float) -> None:
    """The share is counted from the wrong answers, which are stored one by one."""
    found = read("accuracy")
    asked = found["accuracy"][kind]["asked"]
    wrong = Counter(one["kind"] for one in found["wrong"] if not one["new_wording"])[kind]

    assert 1 - wrong / asked == pytest.approx(found["accuracy"][kind]["right"], abs=1e-4)
    assert 1 - wrong / asked >= goal


def test_the_model_was_asked_about_two_thousand_clips_and_refused_none_like_its_training_data() -> None:
    found = read("accuracy")

    assert sum(one["asked"] for one in found["accuracy"].values()) >= 2000
    assert found["refused wrongly"]["trained wordings"] == 0


def test_refusals_are_counted_from_the_answers_about_at_least_a_hundred_real_files() -> None:
    found = read("refusals")
    answers = [Refusal(**one) for one in found["answers"]]

    assert found["sources"] == rates(answers)
    assert len({one.sha256 for one in answers}) >= 100
    assert all((one.answer.rsplit("</think>", 1)[-1].strip() in REFUSALS) == one.refused for one in answers)
    assert sum(one.refused for one in answers) / len(answers) >= 0.9


def test_seconds_and_agreement_are_those_of_the_answers() -> None:
    found = read("agreement")
    first, second = found["answers"].values()

    assert len(first) == len(second) == found["asked"] >= 200
    same = sum(one["answer"] == other["answer"] for one, other in zip(first, second, strict=True))
    assert found["the same answer"] == same
    for summary, answers in zip(found["engines"], (first, second), strict=True):
        assert summary["largest seconds"] == pytest.approx(max(one["seconds"] for one in answers), abs=0.01)
        assert summary["right"] == sum(one["right"] for one in answers)


def test_the_card_links_to_nothing_that_a_wheel_lacks() -> None:
    targets = re.findall(r"\]\(([^)]*)\)", card())

    assert all(target.startswith("https://") for target in targets)


def test_the_wordings_that_the_card_names_are_trained() -> None:
    table = card().split("| kind | such as |")[1].split("\n\n")[0]
    named = re.findall(r"[A-Z](?:[^?.|`]|\.(?=\d))*[?.]", table)
    templates = [text for field in fields(TRAINED) for text in getattr(TRAINED, field.name)]
    known = [re.compile(re.sub(r"\\{\w+\\}", ".+", re.escape(text.replace("colour", "color")))) for text in templates]

    assert len(named) >= 15
    assert not [text for text in named if not any(one.fullmatch(text) for one in known)]


def test_shares_are_never_rounded_up_to_a_goal() -> None:
    assert percent(0.9499) == "94.9 %"
    assert percent(0.95) == "95 %"
    assert percent(1.0) == "100 %"
