"""Benchmarks of the reasoner: its engines, how they decode clips, and their pages."""
