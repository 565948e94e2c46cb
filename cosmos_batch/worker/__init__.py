"""A worker: a Batch job that loads a model once, serves its pipeline's queue, and ends when there is no more work.

How it starts:

1. `__main__` and `supervisor` are the outer process. It starts the inner one, renews the leases of messages in flight,
   passes SIGTERM and the Spot notice (`instance_metadata`) on, and records why the inner process ended (decision 004).
2. `serve` is the inner process. `assembly` creates its parts; `nvidia_driver`, `mounts`, `scratch` and `gpu_allocation`
   check and prepare the host.
3. `resident_model` loads the model that `model_copies` fetches.

How it handles a message, once it is ready:

1. `loop` receives messages from SQS while there is room (`pace` measures how fast jobs are done).
2. `queue` reads the job from each, under a lease (`leases`) that the supervisor renews.
3. `runner` handles it as an attempt at the job (`job_attempt`): it reads the job's row, and refuses a job whose limits
   are reached (`job_limits`).
4. `inputs` fetches the job's files and prompt.
5. `inference` runs the engine, for several jobs at a time or one alone. While a remote server is away
   (`server_outages`), the job goes back to its queue.
6. `outputs` checks what the engine made; `documents` writes the result document, with `costs`.
7. `attempt_endings` stores the result, commits an error, or gives the job back to the queue.
8. `commit` decides the result in the state table, writes the document and the files to their final keys, reports to the
   state machine with the job's task token (`task_tokens`), and deletes the message.

All of these modules use `clients`, `credentials` and `logs`.
"""
