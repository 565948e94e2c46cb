"""A plugin for vLLM-Omni that makes its guardrails fail closed and writes down each of their verdicts.

Each process of the server calls `register`, which `pyproject.toml` names as a plugin of vLLM-Omni. A request carries
a unique name (`REQUEST_NAME` in its `extra_params`), and for each check the server writes the verdict into a file of
that name. If there is no such file, the check did not run, whatever the server answered.
"""

import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cosmos_batch.engines.strict_guardrails import make_strict

VERDICTS_FOLDER = "COSMOS_BATCH_GUARDRAIL_VERDICTS"
"""Environment variable with the folder for the verdicts; if it is unset, the server stays unchanged."""

REQUEST_NAME = "cosmos_batch_checks_of"
"""Key in a request's `extra_params` whose value is the request's name."""

CHECKED = ("prompt", "output")
LOADED_MARKER = "loaded"  # file that exists once the server's guardrails fail closed


def register() -> None:
    """Make the guardrails fail closed and report, if this server has any."""
    folder = os.environ.get(VERDICTS_FOLDER)
    if folder is None:
        return
    from vllm_omni.diffusion.models.cosmos3 import guardrails

    _make_strict(guardrails, Path(folder))


def take_verdicts(folder: Path, name: str) -> dict[str, str]:
    """Read and delete the verdicts of one request, by what was checked (`prompt`, `output`)."""
    verdicts = {}
    for what in CHECKED:
        path = _file(folder, name, what)
        if path.is_file():
            verdicts[what] = path.read_text(encoding="utf-8")
            path.unlink()
    return verdicts


def _make_strict(guardrails: Any, folder: Path) -> None:
    import cosmos_guardrail

    logging.getLogger("cosmos_guardrail.cosmos_guardrail").disabled = True  # it logs the prompts that it refuses
    is_enabled = guardrails.is_guardrails_enabled
    checked = threading.local()  # one request's prompt is checked while another's output is, in another thread

    def remember_request(config: Any, sampling: Any = None) -> bool:
        """Note the request's name. vLLM-Omni calls this right before it checks a prompt or an output."""
        extra: Mapping[str, Any] = getattr(sampling, "extra_args", None) or {}
        checked.request = extra.get(REQUEST_NAME)
        return bool(is_enabled(config, sampling))

    def report(what: str, verdict: str) -> None:
        if checked.request is not None:  # requests of the server's own warm-up have no name
            _file(folder, checked.request, what).write_text(verdict, encoding="utf-8")

    class StrictChecker(cosmos_guardrail.CosmosSafetyChecker):  # type: ignore[misc]
        """The checker that vLLM-Omni loads in place of `CosmosSafetyChecker`."""

        def __init__(self) -> None:
            super().__init__()
            make_strict(self.text_guardrail, self.video_guardrail, report)
            (folder / LOADED_MARKER).touch()

    guardrails.CosmosSafetyChecker = StrictChecker
    guardrails.is_guardrails_enabled = remember_request


def _file(folder: Path, name: str, what: str) -> Path:
    return folder / f"{name}.{what}"
