"""Decisions about runs that need no AWS: reading manifests, choosing files, sweeps, shards, and the estimate."""
