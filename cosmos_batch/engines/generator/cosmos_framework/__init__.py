"""NVIDIA's Cosmos Framework as a torchrun group."""
