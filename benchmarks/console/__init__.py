"""Benchmarks of the console in Chromium."""
