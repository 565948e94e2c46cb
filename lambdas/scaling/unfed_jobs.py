"""Estimate how many jobs the runs in progress have yet to send to a pipeline's queue.

A run feeds its shards little by little, so the queue holds only a few of its shards at a time.
"""

from cosmos_batch.contract.environment import DeployedCompute
from cosmos_batch.state import FedItems, RunFeeding, RunRow, Runs, Table, Workers
from lambdas.runs.budget import expected_dollars


def unfed_jobs(table: Table, pipeline: DeployedCompute) -> int:
    """Return about how many jobs the runs in progress have yet to send to the pipeline's queue."""
    feeding = RunFeeding(table)
    workers = Workers(table, pipeline.id)
    runs = [run for run in Runs(table).active() if run.state == "RUNNING" and pipeline.id in run.pipelines]
    fed_of_run = [(run, feeding.get(run.id, pipeline.id)) for run in runs]
    return sum(jobs_to_come(run, fed, expected_dollars(run, fed, pipeline, workers)) for run, fed in fed_of_run)


def jobs_to_come(run: RunRow, fed: FedItems, job_dollars: float) -> int:
    """Return about how many jobs a run in progress has yet to send to one pipeline.

    Not every item needs a job of its own, so the share of fed items that did is applied to those that are not fed yet.
    The result is limited to what the run's budget can still pay.
    """
    unfed_items = max(0, run.items // len(run.pipelines) - fed.items)  # each pipeline gets all inputs
    jobs = unfed_items * fed.needed_share
    if run.max_dollars is not None and job_dollars > 0:
        jobs = min(jobs, max(0.0, run.max_dollars - run.charged_dollars) / job_dollars)
    return int(jobs)
