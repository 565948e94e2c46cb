"""Servers: those that a worker starts, watches and stops, and those of somebody else."""
