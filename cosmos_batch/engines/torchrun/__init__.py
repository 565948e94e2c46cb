"""Torchrun groups: several processes, one for each GPU, that hold one model and are asked like a server."""
