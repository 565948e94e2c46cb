"""The functions: one module for each, an AWS event in, the contract out. Helper modules stand beside them.

They import the packages `catalogue`, `contract`, `planning` and `state` of `cosmos_batch`, and boto3.
"""
