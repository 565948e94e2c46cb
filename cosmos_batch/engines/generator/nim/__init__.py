"""NVIDIA's Cosmos3 NIM as the server of a generator: a container that a user runs and that serves `POST /v1/infer`.

It was built from NVIDIA's documentation of releases 2.0 and, as far as we could read it, 2.1 (cookbooks/cosmos3/nim in
NVIDIA/cosmos), and never run against the container.
"""
