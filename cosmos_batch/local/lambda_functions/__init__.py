"""Lambda: warm processes for functions, invocations, and event source mappings."""
