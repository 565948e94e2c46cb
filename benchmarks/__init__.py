"""What the app costs in time, measured. `make bench` runs all of it and writes `docs/benchmarks.md`."""
