"""Batch: jobs whose containers are processes, and the vCPUs and GPUs that they wait for."""
