"""What we change in vLLM-Omni: its guardrails fail closed, and every verdict of theirs is written down.

Each process of the server calls `register`, which `pyproject.toml` names as a plugin of vLLM-Omni. A request carries
a name of its own (`REQUEST_NAME` in its `extra_params`); for each check the server writes the verdict into a file of
that name. Where the engine finds no such file, the check did not run, whatever the server answered.
"""

import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cosmos_batch.engines.strict_guardrails import make_strict

VERDICTS_FOLDER = "COSMOS_BATCH_GUARDRAIL_VERDICTS"
"""Environment variable with the folder of the verdicts; without it the server stays as it is."""

REQUEST_NAME = "cosmos_batch_checks_of"
"""Key of a request's `extra_params` that names the request."""

CHECKED = ("prompt", "output")
LOADED_MARKER = "loaded"  # file that is there when the server's guardrails have become strict


def register() -> None:
    """Have the guardrails fail closed and report, where this server has any."""
    folder = os.environ.get(VERDICTS_FOLDER)
    if folder is None:
        return
    from vllm_omni.diffusion.models.cosmos3 import guardrails

    _make_strict(guardrails, Path(folder))


def take_verdicts(folder: Path, name: str) -> dict[str, str]:
    """What the server said of one request, and forget it."""
    found = {}
    for what in CHECKED:
        path = _file(folder, name, what)
        if path.is_file():
            found[what] = path.read_text(encoding="utf-8")
            path.unlink()
    return found


def _make_strict(guardrails: Any, folder: Path) -> None:
    import cosmos_guardrail

    logging.getLogger("cosmos_guardrail.cosmos_guardrail").disabled = True  # it writes down the prompts that it refuses
    asks = guardrails.is_guardrails_enabled
    checked = threading.local()  # one request is prepared while another's output is checked

    def remember_request(config: Any, sampling: Any = None) -> bool:
        """vLLM-Omni asks this for each request right before it has the prompt, or the output, checked."""
        extra: Mapping[str, Any] = getattr(sampling, "extra_args", None) or {}
        checked.request = extra.get(REQUEST_NAME)
        return bool(asks(config, sampling))

    def report(what: str, verdict: str) -> None:
        if checked.request is not None:  # a request of the server's own start names none
            _file(folder, checked.request, what).write_text(verdict, encoding="utf-8")

    class StrictChecker(cosmos_guardrail.CosmosSafetyChecker):  # type: ignore[misc]
        """What vLLM-Omni loads in place of the class that it imported."""

        def __init__(self) -> None:
            super().__init__()
            make_strict(self.text_guardrail, self.video_guardrail, report)
            (folder / LOADED_MARKER).touch()

    guardrails.CosmosSafetyChecker = StrictChecker
    guardrails.is_guardrails_enabled = remember_request


def _file(folder: Path, name: str, what: str) -> Path:
    return folder / f"{name}.{what}"
