"""Runs: prepare one, feed its shards to the queues, collect what became of their items, and sum it up."""
