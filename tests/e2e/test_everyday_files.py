"""A folder of files such as people have, on a machine without NVIDIA's model: one command answers each of them."""

import json
from pathlib import Path

import pytest

from tests.support.everyday_files import FILES
from tests.support.installed_program import Shell

MISNAMED = {kind for kind in FILES if " named ." in kind} - {"MP4 named .mov"}  # which has the same kind of content


@pytest.mark.slow
@pytest.mark.timeout(900)  # a cloud, a model and some fifty answers, beside whatever else the machine does
def test_every_media_file_is_answered_and_other_files_are_named(tmp_path: Path) -> None:
    kinds = {}
    for number, (kind, make) in enumerate(FILES.items()):
        place = tmp_path / "camera" / f"{number:02}"
        place.mkdir(parents=True)
        kinds[f"{place.name}/{make(place).name}"] = kind
    (tmp_path / "camera" / "notes.txt").write_text("no media")
    (tmp_path / "camera" / "empty.mp4").touch()
    nobody = "http://127.0.0.1:9"
    shell = Shell(tmp_path, {"COSMOS_BATCH_HOME": str(tmp_path / "home"), "HF_ENDPOINT": nobody, "HOME": str(tmp_path)})
    out, err = shell.run("run", "camera/", "--task", "caption", "--output", "answers/")
    assert "empty files: 1 (camera/empty.mp4)" in err and "files of other kinds: 1 (camera/notes.txt)" in err
    assert f"{len(FILES)} of {len(FILES)} done (100 %), 0 failed" in err
    documents = {path: json.loads((tmp_path / path).read_text()) for path in map(Path, out.splitlines())}
    answers = {f"{path.parent.name}/{document['inputFile']}": document for path, document in documents.items()}
    assert answers.keys() == kinds.keys() and all(answer["result"] for answer in answers.values())
    noted = {
        kinds[name]
        for name, answer in answers.items()
        if any("it was read as what it is" in note for note in answer.get("notes", []))
    }
    assert noted == MISNAMED
