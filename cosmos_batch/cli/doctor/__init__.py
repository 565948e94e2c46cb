"""The checks of `cosmos-batch doctor`: what would stop a run, each with what to do about it."""
