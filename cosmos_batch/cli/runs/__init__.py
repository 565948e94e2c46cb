"""Inputs of a run and its plan: where its files are listed, and what the run would take and cost."""
