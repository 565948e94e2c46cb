"""What a generator is asked for: one schema for all engines, settled and checked before a GPU is touched."""
