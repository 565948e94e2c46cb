"""Benchmarks of the app and its engines. `make bench` runs them and writes `docs/benchmarks.md`."""
