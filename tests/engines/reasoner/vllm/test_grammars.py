"""Schemas that `checked_schema` accepts cost the grammar library of vLLM's server little."""

import json
import resource
import subprocess
import sys
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cosmos_batch.contract.json_schema import COUNT_LIMIT, checked_schema
from cosmos_batch.engines.reasoner.vllm.engine import space_json
from tests.support.real_vllm import needs_vllm

pytestmark = needs_vllm

MEMORY = 4 << 30
COMPILE = """
import sys
from llguidance import LLMatcher
for line in sys.stdin:
    LLMatcher.validate_grammar(LLMatcher.grammar_from_json_schema(line), None)
    print(flush=True)
"""
COUNTS = st.sampled_from([0, 1, 100, COUNT_LIMIT // 4, COUNT_LIMIT, 10**6, 10**9, 10**20])
LEAVES = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "array", "object", "null"])},
    optional=dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum"), COUNTS),
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: (
        st.fixed_dictionaries(
            {"type": st.just("array"), "items": inner}, optional={"minItems": COUNTS, "maxItems": COUNTS}
        )
        | st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=4)})
        | st.dictionaries(st.sampled_from("abcd"), inner, min_size=1).map(lambda named: {"properties": named})
    ),
    max_leaves=12,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(SCHEMAS, min_size=1, max_size=10))
def test_no_accepted_schema_exhausts_the_server(schemas: list[dict[str, Any]]) -> None:
    passed = [schema for schema in schemas if _passes(schema)]
    compiled = subprocess.run(
        [sys.executable, "-c", COMPILE],
        input="".join(f"{json.dumps(schema)}\n" for schema in passed),
        text=True,
        capture_output=True,
        check=False,
        timeout=300,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )
    assert compiled.returncode == 0, compiled.stderr
    assert compiled.stdout.count("\n") == len(passed)


def _passes(schema: dict[str, Any]) -> bool:
    try:
        return bool(checked_schema(schema))
    except ValueError:
        return False


def test_json_is_written_with_the_spaces_that_models_learn() -> None:
    """The grammar lets the text of `json.dumps` pass, and no other spaces."""
    from llguidance import LLMatcher, LLTokenizer

    schema: dict[str, Any] = {"type": "array", "items": {"type": "integer"}}
    body = {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}
    space_json(body)
    spaced = body["response_format"]["json_schema"]["schema"]  # type: ignore[index]
    grammar = LLMatcher.grammar_from_json_schema(json.dumps(spaced), defaults={"whitespace_flexible": False})
    tokenizer = LLTokenizer("byte")

    def passes(text: str) -> bool:
        tokens = tokenizer.tokenize_str(text)
        return bool(LLMatcher(tokenizer, grammar).validate_tokens(tokens) == len(tokens))

    assert passes("[1, 2]")
    assert not passes("[1,2]") and not passes("[1,  2]")
    assert "x-guidance" not in schema, "the job's own schema stays as it is"
