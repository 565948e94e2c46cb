"""`docs/benchmarks.md` says what was measured, and what was measured is what there is."""

import json
import math
from pathlib import Path

from benchmarks import page, reasoner_figures, true_shapes
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


def test_the_worker_keeps_up_with_raw_vllm_on_a_gpu_and_starts_in_a_minute() -> None:
    found = reasoner_figures.kept("2b")
    assert "H100" in found["machine"]
    assert reasoner_figures.rates(found).of_raw >= reasoner_figures.OF_RAW
    assert found["start"]["with"]["seconds"] <= reasoner_figures.START_SECONDS


def test_every_answer_had_the_length_that_was_forced() -> None:
    for shape in ("2b",):
        found = reasoner_figures.kept(shape)
        expected = found["workload"]["clips"] * found["workload"]["tokens"]
        raw, worker = (found[step]["passes"] for step in ("raw", "worker"))
        assert {one["tokens"] for one in [*raw, *worker]} == {expected}
        assert raw[-1]["promptTokens"] == worker[-1]["promptTokens"], "the same was asked"


def test_the_true_shapes_have_the_published_number_of_parameters(tmp_path: Path) -> None:
    tiny = json.loads((true_shapes.build_random_checkpoint(tmp_path) / "config.json").read_text(encoding="utf-8"))
    for shape, published in reasoner_figures.PARAMETERS.items():
        tensors = true_shapes.true_tensors(true_shapes.true_config(shape, tiny, true_shapes.full_tokenizer()))
        assert sum(map(math.prod, tensors.values())) == published
