"""`docs/benchmarks.md` says what was measured, and what was measured is what there is."""

from benchmarks import page
from benchmarks.results import kept
from tests.infra.assembly import STACKS


def test_the_page_says_what_was_measured() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.text(), "run `make bench`"


def test_every_stack_of_the_app_was_measured() -> None:
    [resources] = [row.raw["resources"] for row in kept("deployment").measured if "resources" in row.raw]
    assert {name.removeprefix("CosmosBatch-") for name in resources} == set(STACKS)


def test_every_limit_is_met() -> None:
    missed = [row.name for name in ("foundation", "deployment") for row in kept(name).measured if not row.met]
    assert not missed
