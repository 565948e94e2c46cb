"""`cosmos-batch view` as a person starts and ends it."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from tests.support.console_documents import write_answer


def test_the_page_is_served_until_ctrl_c_is_pressed(tmp_path: Path) -> None:
    write_answer(tmp_path / "a.json")
    command = [sys.executable, "-m", "cosmos_batch.cli", "view", str(tmp_path), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"(http://127\.0\.0\.1:\d+)/#token=(\S+)", line)
        assert found is not None, line + process.stderr.read()
        url, token = found.groups()
        with httpx.Client(base_url=url) as client:
            assert "<title>Cosmos Batch</title>" in client.get("/").text
            assert client.get("/api/views/folder/state").status_code == 401
            assert client.post("/api/session", json={"token": token}).status_code == 204
            assert client.get("/api/views/folder/state").json()["title"] == tmp_path.name
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert said.splitlines()[-1] == "Ended."
