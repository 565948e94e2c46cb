"""The registry of engines: each row names what exists, and an engine is added by a row and a module."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from cosmos_batch.catalogue.engines import DEFAULT_IMAGE, ENDPOINT_ENGINE, ENGINES, RegisteredEngine, image_for
from cosmos_batch.engines.serving.dialect import ServerDialect, dialect_of

ROOT = Path(__file__).parents[2]
ROWS = pytest.mark.parametrize("row", ENGINES.values(), ids=lambda row: row.name)


@ROWS
def test_a_row_names_classes_with_the_interface_of_an_engine(row: RegisteredEngine) -> None:
    paths = [path for path in (row.class_path, row.endpoint_class_path) if path is not None]
    assert paths
    for path in paths:
        module, _, name = path.partition(":")
        engine = getattr(import_module(module), name)
        assert all(callable(getattr(engine, method)) for method in ("load", "run", "close"))


@ROWS
def test_a_row_names_a_dialect_and_an_image(row: RegisteredEngine) -> None:
    assert isinstance(dialect_of(row.name), ServerDialect)
    assert (ROOT / "containers" / row.image / "Dockerfile").is_file()


@ROWS
def test_generators_have_abilities_and_reasoners_have_none(row: RegisteredEngine) -> None:
    assert (row.abilities is not None) == (row.surface == "generator")


def test_an_endpoint_is_taken_to_run_an_engine_of_its_surface() -> None:
    assert all(ENGINES[name].surface == surface for (surface, _), name in ENDPOINT_ENGINE.items())
    assert {surface for surface, _ in ENDPOINT_ENGINE} == {"reasoner", "generator"}
    asked = {row.name for row in ENGINES.values() if row.endpoint_class_path is not None}
    assert asked == set(ENDPOINT_ENGINE.values())
    assert {row.name for row in ENGINES.values() if row.by_endpoint} <= asked


def test_the_image_of_an_engine_that_has_no_row() -> None:
    assert image_for("auto", "reasoner") == image_for("endpoint", "generator") == "reasoner"
    assert [image_for("my.module:Engine", surface) for surface in DEFAULT_IMAGE] == ["reasoner", "diffusers"]


NEW_ENGINE = '''
"""A new reasoner engine: its server listens on a port and has words of its own."""

import sys
from dataclasses import dataclass

from cosmos_batch.contract.result import Answer, Usage
from cosmos_batch.engines.serving.dialect import ServerDialect, dialect_of
from cosmos_batch.engines.serving.served_model import ServedModel
from cosmos_batch.engines.serving.server_plan import ServerPlan
from cosmos_batch.engines.serving.server import Address

SERVER = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
print("the weights are here", flush=True)
if int(sys.argv[2]) > 1:
    sys.exit("this is too much for me")
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")
HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


class NewDialect(ServerDialect):
    def loaded_weights(self, line):
        return "weights are here" in line

    def ran_out_of_memory(self, line):
        return "too much for me" in line


@dataclass(frozen=True)
class NewPlan(ServerPlan):
    port: int
    requests: int = 4
    program = "New"
    less_memory = "Take a larger GPU."

    def address(self, folder):
        return Address(f"http://127.0.0.1:{self.port}")

    def command(self, checkpoint, folder):
        return [sys.executable, "-c", SERVER, str(self.port), str(self.requests)]

    def environment(self, caches, folder):
        return {}

    def smaller(self):
        return NewPlan(self.port, self.requests // 4)


class NewEngine:
    name, concurrency, startup_logs = "new 1.0", 1, []

    def load(self, model_dir, context=None):
        self.served = ServedModel(self.name, NewPlan(free_port()), dialect_of("new"))
        self.served.start(model_dir)

    async def run(self, job, workdir):
        response = await self.served.request(lambda connection: connection.get("/"))
        usage = Usage(prompt_tokens=1, completion_tokens=1)
        return Answer(text=response.text, finish_reason="stop", usage=usage, timings={}, logs=[])

    def close(self):
        self.served.close()


def free_port():
    import socket

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]
'''

PROGRAM = """
import asyncio
from pathlib import Path

from cosmos_batch.catalogue import engines

engines.ENGINES["new"] = engines.RegisteredEngine(
    "new", "New", "reasoner", "reasoner", class_path="new_engine:NewEngine", dialect="new_engine:NewDialect"
)

from cosmos_batch.engines.factory import create_engine
from cosmos_batch.planning.configuration import load_config
from cosmos_batch.planning.deployment import enabled_pipelines

[pipeline] = enabled_pipelines(load_config(Path("config.json")))
engine = create_engine(pipeline.engine)
engine.load(Path("checkpoint"))
answer = asyncio.run(engine.run(None, None))
print(pipeline.engine, pipeline.image, engine.name, engine.served.plan.requests, answer.text)
engine.close()
"""


def test_an_engine_is_added_by_a_row_and_a_module(tmp_path: Path) -> None:
    """The configuration accepts its name, the worker's image and class are those of its row, and its own words for
    memory that ran out make its server start again with a smaller plan."""
    (tmp_path / "new_engine.py").write_text(NEW_ENGINE)
    models = {"reason2B": {"enabled": True, "engine": "new"}}
    config = {"app": {"pipelines": {"useNvidiaCosmos": {"enabled": True, "modelsReason": models}}}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    outcome = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.stdout.split() == ["new", "reasoner", "new", "1.0", "1", "hello"], outcome.stderr
