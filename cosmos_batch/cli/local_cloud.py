"""Start the local cloud for this app: say where its files lie, and which variables its containers get."""

import os
from pathlib import Path

from cosmos_batch.local.cloud import LocalCloud

# Containers get these variables of the machine too: workers download models from the Hub that a person has chosen.
MACHINE_VARIABLES = ("HF_ENDPOINT",)
# Workers check the host's driver against the CUDA of their image, and no image runs here.
IGNORED_IMAGE_VARIABLES = ("IMAGE_CUDA",)
# Every function of the app imports these; together they take longer than the rest of its start.
FUNCTION_MODULES = ("pydantic", "pydantic.root_model", "zoneinfo")


def default_home() -> Path:
    """Return ``$COSMOS_BATCH_HOME``, or ``~/.cache/cosmos-batch``."""
    configured = os.environ.get("COSMOS_BATCH_HOME")
    return Path(configured) if configured else Path.home() / ".cache" / "cosmos-batch"


def where_executions_are() -> str:
    """Return where a person finds an execution, in AWS or in a local cloud, to end a sentence."""
    return f"in the Step Functions console; that of a local cloud, in the logs in {default_home() / 'logs'}"


def start_local_cloud(home: Path, parent_pid: int | None = None, stop_grace: float = 30.0) -> LocalCloud:
    """Start a local cloud for this app; the parameters are those of ``LocalCloud.start``."""
    return LocalCloud.start(
        home,
        parent_pid=parent_pid,
        stop_grace=stop_grace,
        machine_variables=MACHINE_VARIABLES,
        ignored_image_variables=IGNORED_IMAGE_VARIABLES,
        function_modules=FUNCTION_MODULES,
    )
