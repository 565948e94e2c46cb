"""Benchmarks of the generator: its engines, how they write videos, and their pages."""
