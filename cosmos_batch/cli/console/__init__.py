"""Runs of a deployment as the console shows them, and what a person can do with them from its page."""
