"""Decide what an uploaded file starts, and start it."""
