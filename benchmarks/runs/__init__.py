"""Benchmarks of runs over many files, measured on a local cloud and simulated."""
