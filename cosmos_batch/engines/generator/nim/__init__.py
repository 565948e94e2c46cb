"""NVIDIA's Cosmos3 NIM as the server of a generator: a container that a user runs and that serves `POST /v1/infer`.

It was built from NVIDIA's documentation of release 2.1.0 (cookbooks/cosmos3/nim in NVIDIA/cosmos), and never run
against the container.
"""
