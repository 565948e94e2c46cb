"""Samples of stacks are summed up by function."""

from benchmarks.stack_samples import seconds

SAMPLES = """\
process 1:"server";main (a.py:1);load (a.py:2);copy (b.py:3) 40
process 1:"server";main (a.py:1);load (a.py:9) 10
a command
with line breaks
process 1:"server";process 2:"engine";main (a.py:1);run_core (c.py:5);copy (b.py:3) 25
""".splitlines(keepends=True)


def test_a_function_counts_with_all_that_it_called() -> None:
    assert seconds(SAMPLES, 50, ["load", "copy"]) == {"all": 1.5, "load": 1.0, "copy": 1.3}


def test_samples_are_left_out_by_what_is_on_their_stack() -> None:
    assert seconds(SAMPLES, 50, ["copy"], below="main", without="run_core") == {"all": 1.0, "copy": 0.8}
    assert seconds(SAMPLES, 50, ["load", "copy"], below="run_core") == {"all": 0.5, "load": 0.0, "copy": 0.5}
