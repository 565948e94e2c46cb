"""Benchmarks of runs over many files on a local cloud, and what they cost."""
