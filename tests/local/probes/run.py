"""Run every probe against a server in this process, and print as JSON what each of them saw.

python -m tests.local.probes.run plain|patched HOME
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import sys
import threading
import time
import traceback
import urllib.request
from argparse import Namespace
from pathlib import Path
from typing import Any

from tests.local import probes
from tests.local.probes.registry import PROBES, Probe, ProbedCloud


def main(kind: str, home: Path) -> None:
    """Probe plain moto, or moto with every patch."""
    os.environ |= {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_DEFAULT_REGION": "us-east-1"}
    server = _patched(home) if kind == "patched" else _plain()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    cloud = ProbedCloud(f"http://localhost:{server.server_port}")
    # moto runs state machines if it is configured to, which is no patch.
    configuration = json.dumps({"stepfunctions": {"execute_state_machine": True}}).encode()
    urllib.request.urlopen(urllib.request.Request(f"{cloud.endpoint}/moto-api/config", configuration, method="POST"))
    for module in pkgutil.iter_modules(probes.__path__):
        if module.name != "run":
            importlib.import_module(f"{probes.__name__}.{module.name}")
    print(json.dumps({name: _result(name, probe, cloud) for name, probe in PROBES.items()}))
    sys.stdout.flush()
    os._exit(0)


def _result(name: str, probe: Probe, cloud: ProbedCloud) -> dict[str, Any]:
    started = time.monotonic()
    try:
        return {"seen": bool(probe(cloud)), "error": ""}
    except Exception:
        return {"seen": False, "error": traceback.format_exc(limit=-3)}
    finally:
        print(f"{name}: {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)


def _plain() -> Any:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
    os.environ["MOTO_PORT"] = str(server.server_port)
    os.environ["AWS_ENDPOINT_URL"] = f"http://localhost:{server.server_port}"
    return server


def _patched(home: Path) -> Any:
    from cosmos_batch.local.server import listen

    options = {"machine_variable": [], "ignored_image_variable": [], "function_module": []}
    return listen(Namespace(home=home, port=0, id="probed", stop_grace=1.0, **options))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
