"""The functions: one module for each, an AWS event in, the contract out. Helper modules stand beside them.

They import `cosmos_batch.contract`, `cosmos_batch.state` and boto3, and nothing else of ours.
"""
