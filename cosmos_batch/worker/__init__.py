"""A worker: one Batch job that loads a model once, drains its pipeline's queue, and leaves when there is no more work.

`python -m cosmos_batch.worker` is two processes. The outer one (`supervisor`) keeps the leases of the messages in
flight, so that an engine that holds the interpreter for minutes cannot lose them, and outlives a crash of the inner
one (`serve`), which loads the engine and does the work.
"""
