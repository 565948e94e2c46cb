"""Turn a request into a job, or refuse it."""
