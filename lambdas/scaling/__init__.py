"""Decide how many workers each pipeline has, and start, drain and stop them."""
