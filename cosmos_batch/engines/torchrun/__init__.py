"""Torchrun groups: several processes, one for each GPU, that share a model and answer requests as one server."""
