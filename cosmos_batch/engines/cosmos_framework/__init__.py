"""The code for NVIDIA's Cosmos Framework that its reasoner and its generator share: the driver of its group."""

REVISION = "5eee9ed574255f017b192161bfbb5a10253d65cf"
"""Commit of NVIDIA/cosmos-framework that the image in `containers/framework` has."""

DRIVER = "cosmos_batch.engines.cosmos_framework.driver"
"""Module that each process of a group runs."""
