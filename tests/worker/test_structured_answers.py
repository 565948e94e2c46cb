"""Answers that must fit a JSON Schema, and what the document has of them."""

import json
from typing import Any

from cosmos_batch.contract.parameters import Parameters
from tests.worker.conftest import WorkerFixture

SCHEMA = {"type": "object", "properties": {"robots": {"type": "integer"}}, "required": ["robots"]}


def structured(bench: WorkerFixture, text: str, **parameters: Any) -> dict[str, Any]:
    """Run a job whose engine answers `text` each time, and return its document."""
    prompt = json.dumps({"text": text})
    bench.send(bench.job(prompt=prompt, parameters=Parameters(**{"json_schema": SCHEMA, **parameters})))
    bench.worker().run()
    document: dict[str, Any] = json.loads(bench.document("one"))
    return document


def test_a_structured_answer_is_stored_parsed(bench: WorkerFixture) -> None:
    document = structured(bench, 'I see: {"robots": 2}')
    assert (document["data"], document["result"]) == ({"robots": 2}, 'I see: {"robots": 2}')
    assert "dataError" not in document and document["parameters"]["jsonSchema"] == SCHEMA


def test_an_answer_that_does_not_fit_the_schema_is_delivered_with_an_error(bench: WorkerFixture) -> None:
    document = structured(bench, '{"robots": "two"}')
    assert document["data"] is None
    assert "An earlier answer was not accepted" in document["result"], "the second answer: this engine says its prompt"
    assert document["dataError"].startswith("its JSON does not fit the schema at $: ")
    assert "$.robots: 'two' is not of type 'integer'; asked once more" in document["jobLogs"]
    [call] = bench.stepfunctions.calls_of("success")
    assert json.loads(call["output"])["outputs"]


def test_without_a_schema_the_document_has_no_data(bench: WorkerFixture) -> None:
    bench.send(bench.job(prompt='{"robots": 2}'))
    bench.worker().run()
    assert not {"data", "dataError", "notes"} & set(json.loads(bench.document("one")))
