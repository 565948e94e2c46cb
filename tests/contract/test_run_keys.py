from cosmos_batch.contract.run_keys import ERRORS, RESULTS, RunKeys

KEYS = RunKeys("cats")


def test_the_objects_of_a_run_lie_where_older_runs_have_them() -> None:
    assert [KEYS.request, KEYS.shards, KEYS.summary] == [
        "runs/cats/run.json",
        "runs/cats/shards.json",
        "runs/cats/summary.json",
    ]
    assert KEYS.shard("00007") == "runs/cats/shards/00007.jsonl"
    assert KEYS.planned("e1", "00007") == "runs/cats/planned/e1/00007.jsonl"
    assert [KEYS.lines(folder, "00007") for folder in (RESULTS, ERRORS)] == [
        "runs/cats/results/00007.jsonl",
        "runs/cats/errors/00007.jsonl",
    ]
    assert KEYS.lines(ERRORS, "00007").startswith(KEYS.folder(ERRORS))
