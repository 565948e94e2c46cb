"""The benchmark of the worker itself, with few items: all parts of a worker do with its stand-in for AWS."""

from benchmarks.app.throughput import _served
from tests.support.scripted_engine import ScriptedEngine


def test_a_worker_serves_all_items_with_the_stand_in_for_aws() -> None:
    began, ended = _served(ScriptedEngine(), 5, 0.0)
    assert ended > began
