"""Benchmarks of the app around the engines: one job, one worker, and deployments."""
