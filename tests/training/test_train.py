"""One short stage of the training on the CPU, as it is rehearsed before it runs on a GPU."""

from pathlib import Path

import pytest
import torch

from cosmos_batch.demo import DEMO_REASON
from training.tokens import load_tokenizer
from training.train import load_weights, save, train


@pytest.mark.slow
@pytest.mark.parametrize("start", [None, DEMO_REASON], ids=["from-nothing", "from-the-committed-weights"])
def test_a_stage_writes_a_whole_checkpoint_with_weights_that_it_changed(start: Path | None, tmp_path: Path) -> None:
    out = tmp_path / "stage"

    # The rate is high, because the first steps of a stage take little of it.
    train(out, start, minutes=0.1, rate=0.1, seed=1, workers=0, patches=1500, compiled=False)

    committed, written = load_weights(DEMO_REASON), load_weights(out)
    assert set(written) == set(committed)
    assert all(torch.isfinite(one).all() for one in written.values())
    assert any(not torch.equal(one, committed[name]) for name, one in written.items())
    assert {one.name for one in out.iterdir()} == {one.name for one in DEMO_REASON.iterdir()} - {"README.md"}


def test_weights_that_were_not_written_to_their_end_do_not_count_as_a_finished_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_half(_: object, path: Path, **options: object) -> None:
        path.write_bytes(b"half of the weights")
        raise OSError("No space left on device")

    monkeypatch.setattr("training.train.save_file", write_half)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path, load_tokenizer(DEMO_REASON), {"weight": torch.zeros(1)})
    assert not (tmp_path / "model.safetensors").exists()
