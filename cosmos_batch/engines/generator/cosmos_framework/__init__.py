"""The engine `cosmos-framework`: NVIDIA's Cosmos Framework as a torchrun group."""
