"""The command tells a person about the picture of an answer."""

from pathlib import Path

import pytest

from cosmos_batch.cli.answer_picture import draw_answer
from cosmos_batch.cli.deployment import Deployment
from tests.contract.test_models import document

BOX = '[{"bbox_2d": [120, 240, 330, 790], "label": "red circle"}]'
REFUSAL = "I only know pictures and clips of a few simple shapes, and this is not one of them."


@pytest.mark.parametrize(
    ("answer", "how"), [(BOX, "drawn on the file"), (REFUSAL, "written above the file")], ids=["box", "refusal"]
)
def test_an_answer_without_a_place_is_not_said_to_be_drawn_on_the_file(
    deployment: Deployment,
    picture: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    how: str,
) -> None:
    saved = tmp_path / "answer.json"
    saved.write_text(document(result=answer).to_json(), encoding="utf-8")

    draw_answer(deployment, picture, saved, ask_more=False)

    assert capsys.readouterr().err.splitlines()[-1] == f"What was answered, {how}: {tmp_path / 'answer.png'}"
    assert (tmp_path / "answer.png").read_bytes().startswith(b"\x89PNG")
