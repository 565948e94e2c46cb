"""Simulations of workers with the deployed functions: of their number, and of runs of a million clips."""
